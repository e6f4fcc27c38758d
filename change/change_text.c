/* What a change did, in words and as JSON. */
#include "change/change_text.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/json_file.h"
#include "common/numbers.h"

static const char *change_plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

void change_count_text(const struct change *change, const struct change_count *count, char *text,
                       size_t bytes)
{
    FILE *to = fmemopen(text, bytes, "w");
    *text = '\0';
    if (to == NULL) return;
    fprintf(to, "%" PRIu64 " object%s", count->objects, change_plural(count->objects));
    if (change->action == CHANGE_REMOVE && change->share < 1)
        fprintf(to, " (%" PRIu64 " removed)", count->removed);
    fprintf(to, ", %" PRIu64 " of them (%.1f MiB) alive at the peak", count->peak_objects,
            (double)count->peak_bytes / MIB);
    if (change->action == CHANGE_UNTIL)
        fprintf(to, "; %" PRIu64 " freed by the change, %" PRIu64 " of them by the program later",
                count->ended, count->outlived);
    if (change->action == CHANGE_SHARED)
        fprintf(to, "; %" PRIu64 " are equal to another one", count->removed);
    if (change->action >= CHANGE_POOL)
        fprintf(to, "; %" PRIu64 " chunk%s", count->chunks, change_plural(count->chunks));
    if (change->action == CHANGE_ARENA)
        fprintf(to,
                ", given back %" PRIu64 " time%s; %" PRIu64 " of %" PRIu64 " object%s outlive%s it",
                count->given_back, change_plural(count->given_back), count->outlived,
                count->objects, change_plural(count->objects), count->outlived == 1 ? "s" : "");
    if (change->action == CHANGE_SEPARATE)
        fprintf(to, ", %" PRIu64 " given back", count->given_back);
    if (count->shrunk > 0) fprintf(to, "; %" PRIu64 " had been larger than at last", count->shrunk);
    if (count->clamped > 0)
        fprintf(to, "; %" PRIu64 " size%s would have been less than 0", count->clamped,
                change_plural(count->clamped));
    if (count->elsewhere > 0)
        fprintf(to, "; %" PRIu64 " realloc%s of objects made elsewhere stay%s", count->elsewhere,
                change_plural(count->elsewhere), count->elsewhere == 1 ? "s" : "");
    fclose(to);
}

json_t *change_result_json(const struct change_list *list, const struct change_result *result)
{
    json_t *changes = json_array();
    for (size_t i = 0; i < list->count; i++) {
        const struct change_count *count = &result->of[i];
        json_t *object = json_object();
        json_put_text(object, "change", list->at[i].text);
        json_put_number(object, "objects", count->objects);
        json_put_number(object, "bytes", count->bytes);
        json_put_number(object, "peak_objects", count->peak_objects);
        json_put_number(object, "peak_bytes", count->peak_bytes);
        json_put_number(object, "removed", count->removed);
        json_put_number(object, "ended", count->ended);
        json_put_number(object, "outlived", count->outlived);
        json_put_number(object, "clamped", count->clamped);
        json_put_number(object, "shrunk", count->shrunk);
        json_put_number(object, "chunks", count->chunks);
        json_put_number(object, "given_back", count->given_back);
        json_put_number(object, "elsewhere", count->elsewhere);
        json_put_number(object, "calls_left_out", count->calls);
        json_array_append_new(changes, object);
    }
    return changes;
}
