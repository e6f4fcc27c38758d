#include "symbols/strings.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/printable.h"

enum { SLOTS_LEAST = 1024 };

static uint64_t hash_of(const char *text)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash;
}

/* The slot of the text, or the free one where it would be. */
static uint32_t *strings_slot_of(const struct strings *strings, const char *text)
{
    size_t at = hash_of(text) & (strings->slots_count - 1);
    while (strings->slots[at] != 0 && strcmp(strings->at[strings->slots[at]], text) != 0)
        at = (at + 1) & (strings->slots_count - 1);
    return &strings->slots[at];
}

static bool strings_slots_grow(struct strings *strings)
{
    struct strings larger = *strings;
    larger.slots_count = strings->slots_count == 0 ? SLOTS_LEAST : 2 * strings->slots_count;
    larger.slots = calloc(larger.slots_count, sizeof *larger.slots);
    if (larger.slots == NULL) return false;
    for (uint32_t i = 1; i < strings->count; i++)
        *strings_slot_of(&larger, strings->at[i]) = i;
    free(strings->slots);
    *strings = larger;
    return true;
}

bool strings_open(struct strings *strings)
{
    *strings = (struct strings){.at = NULL};
    if (!strings_slots_grow(strings) ||
        !array_reserve(&strings->at, &strings->room, 1, sizeof(char *)))
        return false;
    strings->at[0] = strdup("");
    strings->count = 1;
    return strings->at[0] != NULL;
}

void strings_free(struct strings *strings)
{
    for (uint32_t i = 0; i < strings->count; i++)
        free(strings->at[i]);
    free(strings->at);
    free(strings->slots);
    *strings = (struct strings){.at = NULL};
}

/* The number of `text`, which is printable and not empty. Takes ownership of `text`. */
static uint32_t symbols_strings_put(struct strings *strings, char *text)
{
    uint32_t *slot = strings_slot_of(strings, text);
    if (*slot != 0) {
        free(text);
        return *slot;
    }
    if (!array_reserve(&strings->at, &strings->room, strings->count + 1, sizeof(char *)) ||
        (strings->count * 2 > strings->slots_count && !strings_slots_grow(strings))) {
        free(text);
        strings->no_memory = true;
        return 0;
    }
    *strings_slot_of(strings, text) = strings->count;
    strings->at[strings->count] = text;
    return strings->count++;
}

uint32_t strings_put(struct strings *strings, const char *text)
{
    if (text == NULL || *text == '\0') return 0;
    char *copy = printable_copy(text, strlen(text));
    if (copy != NULL) return symbols_strings_put(strings, copy);
    strings->no_memory = true;
    return 0;
}
