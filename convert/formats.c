#include "convert/formats.h"

#include <string.h>

#define FORMAT_ENTRY(identifier, name, title) {name, title, &format_##identifier},
const struct format_entry formats[] = {FORMAT_LIST(FORMAT_ENTRY){NULL, NULL, NULL}};

const struct format_entry *format_find(const char *name)
{
    for (const struct format_entry *entry = formats; entry->name != NULL; entry++)
        if (strcmp(entry->name, name) == 0) return entry;
    return NULL;
}

const struct format_entry *format_recognize(struct source *source)
{
    size_t there = source_peek(source, FORMAT_HEAD_BYTES);
    for (const struct format_entry *entry = formats; entry->name != NULL; entry++) {
        struct source head;
        source_open_memory(&head, source->next,
                           there < FORMAT_HEAD_BYTES ? there : FORMAT_HEAD_BYTES);
        if (entry->format->recognize != NULL && entry->format->recognize(&head)) return entry;
    }
    return NULL;
}
