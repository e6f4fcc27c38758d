#include "symbols/code_view.h"

#include <string.h>

const char *const code_view_words[] = {[CODE_VIEW_ALL] = "all",
                                       [CODE_VIEW_INTERPRETED] = "interpreted",
                                       [CODE_VIEW_NATIVE] = "native"};

bool code_view_parse(const char *word, enum code_view *view)
{
    for (unsigned i = CODE_VIEW_ALL; i <= CODE_VIEW_NATIVE; i++) {
        if (strcmp(word, code_view_words[i]) != 0) continue;
        *view = (enum code_view)i;
        return true;
    }
    return false;
}

static bool code_view_shows(enum code_view view, const struct code_frame *frame, bool is_inside)
{
    switch (view) {
    case CODE_VIEW_INTERPRETED: return frame->language != 0;
    case CODE_VIEW_NATIVE: return frame->language == 0;
    default: return is_inside || frame->language != 0 || !frame->is_of_interpreter;
    }
}

unsigned code_view_take(enum code_view view, const struct code_frame *frames, uint32_t *at,
                        unsigned count)
{
    unsigned first = 0, kept = 0;
    while (first < count && frames[at[first]].language == 0)
        first++;
    if (first == count) return count;
    for (unsigned i = 0; i < count; i++)
        if (code_view_shows(view, &frames[at[i]], i < first)) at[kept++] = at[i];
    return kept;
}
