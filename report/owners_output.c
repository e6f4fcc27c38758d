#include "report/owners_output.h"

#include <math.h>
#include <string.h>

#include "common/json_file.h"
#include "common/printable.h"
#include "report/table.h"
#include "report/words.h"

/* The width of the words before numbers; how many rows of a kind are shown, if each has at least one
 * part in so many. */
enum { WIDTH = 15, OWNERS_ROWS_SHOWN = 10, OWNERS_SHOWN_PART = 100 };

/* ---- text ---- */

const char *owners_words(const struct owners *owners, const struct owners_row *row)
{
    const uint64_t pieces = row->at_peak.pieces > 0 ? row->at_peak.pieces : row->at_end.pieces;
    const bool has_name = *row->name != '\0';
    switch (row->kind) {
    case OWNERS_ALIVE: return "alive, as asked for";
    case OWNERS_ROUNDING: return "rounded up";
    case OWNERS_FREE:
        if (owners == NULL) return "the rest of the heap";
        return owners->tally->has_older ? "the rest of the heap: older objects, or free"
               : tally_has_unseen(owners->tally)
                   ? "the rest of the heap: objects that were not recorded, or free"
                   : "free in the heap (--under: in which pages)";
    case OWNERS_MAPPED:
        if (*row->name == '(') return words_format("mapped %s", words_name(row->name));
        return has_name ? words_format("mapped by %s", words_name(row->name))
                        : "mapped by the program";
    case OWNERS_STACKS:
        if (owners == NULL) return "stacks of threads";
        return words_format(pieces == 1 ? "stack of %s thread" : "stacks of %s threads",
                            words_count(pieces));
    case OWNERS_SHARED:
        return has_name ? words_format("shared memory, mapped by %s", words_name(row->name))
                        : "shared memory";
    case OWNERS_FILE: return words_name(row->name);
    case OWNERS_LIBC: return "libc's and the dynamic linker's own";
    case OWNERS_RECORDER: return "the recorder's own";
    default:
        return owners != NULL && owners->tally->has_older
                   ? "nobody's that is known: mapped before recording began"
                   : "nobody's that is known: mapped by bare system calls";
    }
}

/* The rest of a kind, of which some rows are shown. */
static const char *owners_words_of_rest(enum owners_kind kind, uint64_t rows)
{
    const char *s = rows == 1 ? "" : "s";
    if (kind == OWNERS_MAPPED) return words_format("mapped by %s other%s", words_count(rows), s);
    if (kind == OWNERS_FILE) return words_format("%s other file%s", words_count(rows), s);
    return words_format("shared memory, mapped by %s other%s", words_count(rows), s);
}

struct owners_printing {
    const struct owners *owners;
    uint64_t peak, end; /* all of RSS */
    bool has_end;
    const struct fragments *pages, *pages_at_end; /* of a replay, or NULL */
    FILE *to;
};

static void owners_print_line(const struct owners_printing *printing, uint64_t peak, uint64_t end,
                              const char *words)
{
    fprintf(printing->to, "%*s %11s %8s", WIDTH, "", words_bytes(peak),
            words_share(peak, printing->peak));
    if (printing->has_end) fprintf(printing->to, " %11s", words_bytes(end));
    fprintf(printing->to, "  %s\n", printable_text(words));
}

/* How much of what is free is in pages without an object, by those of a replay. */
static uint64_t owners_empty(const struct fragments *pages, uint64_t free_in_heap)
{
    const uint64_t empty = pages->by_fullness[0] * pages->page_bytes;
    const uint64_t free_bytes = pages->pages * pages->page_bytes - pages->live_bytes;
    if (free_bytes == 0) return 0;
    return (uint64_t)((double)free_in_heap * (double)empty / (double)free_bytes);
}

/* What is free in the heap, by the pages of a replay under the recorded allocator. */
static void owners_print_pages(const struct owners_printing *printing, const struct owners_row *row)
{
    const uint64_t peak = owners_empty(printing->pages, row->at_peak.resident);
    const uint64_t end = owners_empty(printing->pages_at_end, row->at_end.resident);
    owners_print_line(printing, row->at_peak.resident - peak, row->at_end.resident - end,
                      "free in pages that are partly full");
    owners_print_line(printing, peak, end, "empty pages of the heap");
}

static bool owners_is_large(const struct owners_printing *printing, const struct owners_row *row)
{
    return row->kind < OWNERS_MAPPED || row->kind > OWNERS_FILE || row->kind == OWNERS_STACKS ||
           row->at_peak.resident * OWNERS_SHOWN_PART >= printing->peak ||
           (printing->has_end && row->at_end.resident * OWNERS_SHOWN_PART >= printing->end);
}

static void owners_print_kind(const struct owners_printing *printing, enum owners_kind kind)
{
    const struct owners *owners = printing->owners;
    uint64_t shown = 0, rows = 0, peak = 0, end = 0;
    const struct owners_row *last = NULL;
    for (size_t i = 0; i < owners->rows_count; i++) {
        const struct owners_row *row = &owners->rows[i];
        if (row->kind != kind || row->at_peak.resident + row->at_end.resident == 0) continue;
        if (kind == OWNERS_FREE && printing->pages != NULL) {
            owners_print_pages(printing, row);
            continue;
        }
        if (owners_is_large(printing, row) && shown < OWNERS_ROWS_SHOWN) {
            owners_print_line(printing, row->at_peak.resident, row->at_end.resident,
                              owners_words(owners, row));
            shown++;
            continue;
        }
        rows++;
        peak += row->at_peak.resident;
        end += row->at_end.resident;
        last = row;
    }
    if (rows > 0)
        owners_print_line(printing, peak, end,
                          rows == 1 ? owners_words(owners, last)
                                    : owners_words_of_rest(kind, rows));
}

/* What else the kernel says of all but the recorder's own, as RSS is shown. */
static void owners_print_others(const struct owners *owners, FILE *to)
{
    const struct owners_look *look = &owners->looks[owners->details];
    const struct owners_amount all = owners_details(owners);
    if (look->is_brief) return;
    fprintf(to, "%*s %s in huge pages; %s with what is shared divided among processes (PSS)", WIDTH,
            "", words_bytes(all.huge), words_bytes(all.proportional));
    if (all.swapped > 0) fprintf(to, "; %s more swapped out", words_bytes(all.swapped));
    if (owners->details != owners->peak) fprintf(to, ", at %s", words_ms(look->ns / 1000000));
    fputc('\n', to);
}

/* What the recorder has, in all. */
static struct owners_row owners_of_recorder(const struct owners *owners)
{
    struct owners_row own = {.kind = OWNERS_RECORDER};
    for (size_t i = 0; i < owners->rows_count; i++) {
        if (owners->rows[i].kind != OWNERS_RECORDER) continue;
        own.at_peak.resident += owners->rows[i].at_peak.resident;
        own.at_end.resident += owners->rows[i].at_end.resident;
    }
    return own;
}

void owners_print(const struct report_trace *trace, const struct fragments *const *pages, FILE *to)
{
    const struct owners *owners = &trace->owners;
    const struct owners_look *peak = &owners->looks[owners->peak];
    const struct owners_look *end = &owners->looks[owners->end];
    const struct owners_row own = owners_of_recorder(owners);
    const uint64_t resident = owners_resident(owners, false);
    const struct owners_printing printing = {owners,
                                             resident,
                                             end->resident - own.at_end.resident,
                                             owners->end != owners->peak,
                                             pages[0],
                                             pages[1],
                                             to};
    fprintf(to, "%-*s ", WIDTH, "RSS");
    if (trace->tally.peak_rss_bytes > 0)
        fprintf(to, "peak %s; ", words_bytes(trace->tally.peak_rss_bytes));
    fprintf(to, "%s of it at %s, after call %s",
            resident < OWNERS_NEAR(trace->tally.peak_rss_bytes) ? words_bytes(resident) : "all",
            words_ms(peak->ns / 1000000), words_count(peak->call));
    fputs(printing.has_end ? ", and at the end:\n" : ":\n", to);
    for (unsigned kind = 0; kind < OWNERS_KINDS; kind++)
        if (kind != OWNERS_RECORDER) owners_print_kind(&printing, (enum owners_kind)kind);
    owners_print_line(&printing, printing.peak, printing.end, "= RSS");
    fprintf(to, "%*s %11s %8s", WIDTH, "", words_bytes(own.at_peak.resident), "");
    if (printing.has_end) fprintf(to, " %11s", words_bytes(own.at_end.resident));
    fputs("  beside that: the recorder's own\n", to);
    owners_print_others(owners, to);
    if (peak->is_estimate)
        fprintf(to,
                "%*s mappings side by side were divided by their lengths: which pages are "
                "resident is not known\n",
                WIDTH, "");
}

void owners_say(const struct report_trace *trace, FILE *to)
{
    const struct owners *owners = &trace->owners;
    const uint64_t all = owners_resident(owners, false), peak = trace->tally.peak_rss_bytes;
    fprintf(to, "RSS was %s at its peak", words_bytes(peak));
    const char *before = "; ";
    if (all < OWNERS_NEAR(peak)) {
        fprintf(to, ". Of the %s at %s", words_bytes(all),
                words_ms(owners->looks[owners->peak].ns / 1000000));
        before = ": ";
    }
    for (size_t i = 0; i < owners->rows_count; i++) {
        const struct owners_row *row = &owners->rows[i];
        if (row->kind == OWNERS_RECORDER || row->at_peak.resident * 20 < all) continue;
        fprintf(to, "%s%s (%s) %s", before, words_bytes(row->at_peak.resident),
                words_share(row->at_peak.resident, all), printable_text(owners_words(owners, row)));
        before = "; ";
    }
    fputs(".\n", to);
}

/* ---- JSON ---- */

/* An amount of bytes; NAN, which becomes null: it is not known. */
static long double owners_known(const struct owners *owners, uint64_t bytes)
{
    return owners->looks[owners->peak].is_brief ? NAN : (long double)bytes;
}

static bool owners_row_cells(const void *of, size_t at, struct table_row *row)
{
    static const struct owners_row none = {.name = ""};
    const struct owners *owners = of;
    const struct owners_row *one = at < owners->rows_count ? &owners->rows[at] : &none;
    const struct owners_amount *peak = &one->at_peak;
    const bool is_file = one->kind == OWNERS_FILE;
    const struct cell cells[] = {
        {"owner", .text = *one->name != '\0' ? one->name : owners_words(owners, one)},
        {"kind", .text = owners_kinds[one->kind]},
        {"bytes", .value = peak->resident},
        {"pss", .value = owners_known(owners, peak->proportional)},
        {"huge", .value = owners_known(owners, peak->huge)},
        {"swapped", .value = owners_known(owners, peak->swapped)},
        {"code", .value = is_file ? (long double)peak->by_kind[RESIDENT_CODE] : NAN},
        {"constants", .value = is_file ? (long double)peak->by_kind[RESIDENT_CONSTANTS] : NAN},
        {"data", .value = is_file ? (long double)peak->by_kind[RESIDENT_DATA] : NAN},
        {"end_bytes", .value = one->at_end.resident},
    };
    TABLE_ROW(row, cells);
    return at < owners->rows_count && one->kind != OWNERS_UNOWNED &&
           peak->resident + one->at_end.resident > 0;
}

static json_t *owners_json_look(const struct owners_look *look)
{
    json_t *object = json_object();
    json_put_numbers(object, "ns call bytes live", look->ns, look->call, look->resident,
                     look->live_bytes);
    json_put_text(object, "why", residency_why_name(look->why));
    json_object_set_new(object, "brief", json_boolean(look->is_brief));
    json_object_set_new(object, "estimate", json_boolean(look->is_estimate));
    return object;
}

static uint64_t owners_most(const struct owners *owners, const struct owners_row *row)
{
    uint64_t most = 0;
    for (size_t i = 0; i < owners->looks_count; i++)
        if (row->over_time[i] > most) most = row->over_time[i];
    return most;
}

static void owners_put_series(json_t *list, const struct owners *owners, const char *owner,
                              enum owners_kind kind, const uint64_t *over_time)
{
    json_t *one = json_object(), *bytes = json_array();
    json_put_text(one, "owner", owner);
    json_put_text(one, "kind", owners_kinds[kind]);
    for (size_t i = 0; i < owners->looks_count; i++)
        json_array_append_new(bytes, json_whole(over_time[i]));
    json_object_set_new(one, "bytes", bytes);
    json_array_append_new(list, one);
}

/* The rows that ever have one part in OWNERS_SHOWN_PART, and the others together. */
static void owners_put_kind(json_t *list, const struct owners *owners, enum owners_kind kind)
{
    const uint64_t all = owners->looks[owners->peak].resident;
    uint64_t rest[OWNERS_LOOKS_MAX] = {0};
    unsigned shown = 0, rows = 0;
    for (size_t i = 0; i < owners->rows_count; i++) {
        const struct owners_row *row = &owners->rows[i];
        if (row->kind != kind) continue;
        const bool has_name = *row->name != '\0';
        if (shown < OWNERS_ROWS_SHOWN && kind != OWNERS_FILE &&
            (!has_name || owners_most(owners, row) * OWNERS_SHOWN_PART >= all)) {
            owners_put_series(list, owners, owners_words(owners, row), kind, row->over_time);
            shown++;
            continue;
        }
        rows++;
        for (size_t k = 0; k < owners->looks_count; k++)
            rest[k] += row->over_time[k];
    }
    if (rows > 0)
        owners_put_series(list, owners,
                          kind == OWNERS_FILE ? "files" : owners_words_of_rest(kind, rows), kind,
                          rest);
}

static json_t *owners_json_over_time(const struct owners *owners)
{
    json_t *object = json_object(), *ns = json_array(), *list = json_array();
    for (size_t i = 0; i < owners->looks_count; i++)
        json_array_append_new(ns, json_whole(owners->looks[i].ns));
    for (unsigned kind = 0; kind < OWNERS_KINDS; kind++)
        owners_put_kind(list, owners, (enum owners_kind)kind);
    json_object_set_new(object, "end_ns", ns);
    json_object_set_new(object, "owners", list);
    return object;
}

json_t *owners_json(const struct owners *owners)
{
    json_t *object = json_object();
    json_object_set_new(object, "peak", owners_json_look(&owners->looks[owners->peak]));
    json_object_set_new(object, "end", owners_json_look(&owners->looks[owners->end]));
    table_put(object, "owners",
              &(struct table){owners_row_cells, owners, .rows = owners->rows_count});
    json_put_number(object, "unowned", owners_of_kind(owners, OWNERS_UNOWNED, false));
    json_put_number(object, "unowned_end", owners_of_kind(owners, OWNERS_UNOWNED, true));
    json_object_set_new(object, "over_time", owners_json_over_time(owners));
    return object;
}
