#include "common/address_pages.h"

#include <stdlib.h>

#define ADDRESS_PAGES_MAX (UINT64_C(1) << (30 - ADDRESS_PAGE_BITS))

void address_pages_free(struct address_pages *pages)
{
    for (size_t i = 0; i < pages->room; i++)
        free(pages->pages[i].starts);
    free(pages->pages);
    *pages = (struct address_pages){0};
}

uint64_t address_pages_of(uint64_t address, uint64_t bytes)
{
    const uint64_t last = address % ADDRESS_PAGE_BYTES + bytes - (bytes != 0);
    const uint64_t count = (last >> ADDRESS_PAGE_BITS) + 1;
    return count < ADDRESS_PAGES_MAX ? count : ADDRESS_PAGES_MAX;
}

static struct address_page *address_entry(const struct address_pages *pages, uint64_t number)
{
    size_t at = (size_t)(number * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (pages->room - 1);
    while (pages->pages[at].number != 0 && pages->pages[at].number != number + 1)
        at = (at + 1) & (pages->room - 1);
    return &pages->pages[at];
}

static bool address_pages_grow(struct address_pages *pages)
{
    struct address_pages larger = {.room = pages->room == 0 ? 1024 : 2 * pages->room,
                                   .count = pages->count};
    larger.pages = calloc(larger.room, sizeof *larger.pages);
    if (larger.pages == NULL) return false;
    for (size_t i = 0; i < pages->room; i++)
        if (pages->pages[i].number != 0)
            *address_entry(&larger, pages->pages[i].number - 1) = pages->pages[i];
    free(pages->pages);
    *pages = larger;
    return true;
}

const struct address_page *address_pages_find(const struct address_pages *pages, uint64_t number)
{
    const struct address_page *page = pages->room != 0 ? address_entry(pages, number) : NULL;
    return page != NULL && page->number != 0 ? page : NULL;
}

uint64_t address_pages_start_below(const struct address_page *page, uint64_t limit)
{
    for (uint64_t word = page->starts != NULL ? (limit + 63) / 64 : 0; word-- > 0;) {
        uint64_t bits = page->starts->bits[word];
        if (limit < 64 * (word + 1)) bits &= (UINT64_C(1) << limit % 64) - 1;
        if (bits != 0) return 64 * word + 63 - (uint64_t)__builtin_clzll(bits);
    }
    return ADDRESS_STARTS;
}

static bool address_put_start(struct address_page *page, uint64_t start, uint32_t object)
{
    if (page->starts == NULL) page->starts = calloc(1, sizeof *page->starts);
    if (page->starts == NULL) return false;
    page->starts->bits[start / 64] |= UINT64_C(1) << start % 64;
    page->starts->objects[start] = object;
    return true;
}

bool address_pages_begin(struct address_pages *pages, uint64_t address, uint64_t bytes,
                         uint32_t object)
{
    const uint64_t first = address >> ADDRESS_PAGE_BITS, count = address_pages_of(address, bytes);
    for (uint64_t i = 0; i < count; i++) {
        if (2 * (pages->count + 1) > pages->room && !address_pages_grow(pages)) return false;
        struct address_page *page = address_entry(pages, first + i);
        pages->count += page->number == 0;
        page->number = first + i + 1;
        if (i > 0) page->over = object + 1;
        if (i == 0 && !address_put_start(page, address % ADDRESS_PAGE_BYTES / 8, object))
            return false;
    }
    return true;
}

void address_pages_end(struct address_pages *pages, uint64_t address, uint64_t bytes,
                       uint32_t object)
{
    const uint64_t first = address >> ADDRESS_PAGE_BITS, count = address_pages_of(address, bytes);
    const uint64_t start = address % ADDRESS_PAGE_BYTES / 8;
    for (uint64_t i = 0; i < count && pages->room != 0; i++) {
        struct address_page *page = address_entry(pages, first + i);
        if (i > 0 && page->over == object + 1) page->over = 0;
        if (i == 0 && page->starts != NULL && page->starts->objects[start] == object)
            page->starts->bits[start / 64] &= ~(UINT64_C(1) << start % 64);
    }
}
