#include "postprocess/why.h"

#include <inttypes.h>

static void print_thing(const struct order_wait *wait, FILE *to)
{
    if (!wait->is_stamp)
        fprintf(to, "for birth %" PRIu64 " of lane %" PRIu32 " (rule 2)",
                raw_births_count(wait->number), raw_births_lane(wait->number));
    else if (wait->structure == RAW_STRUCTURE_PAGE_HEAP)
        fprintf(to, "for its turn with number %" PRIu64 " of the page heap (rule 3)", wait->number);
    else
        fprintf(to, "for its turn with number %" PRIu64 " of class %" PRIu32 " (rule 3)",
                wait->number, wait->structure);
}

static void print_release(const struct order_wait *wait, FILE *to)
{
    switch (wait->release) {
    case ORDER_CAME:
        if (!wait->has_releaser)
            fprintf(to, "it came");
        else if (wait->is_stamp)
            fprintf(to, "lane %" PRIu32 ", record %" PRIu64 " had the number before", wait->lane,
                    wait->lane_record);
        else
            fprintf(to, "lane %" PRIu32 " had it, up to record %" PRIu64, wait->lane,
                    wait->lane_record);
        break;
    case ORDER_ENTERED:
        fprintf(to, "nothing went on, and it entered the other structures of its call first");
        break;
    case ORDER_LOOSE:
        fprintf(to, "nothing went on, and the record went without the rest of its call");
        break;
    case ORDER_DONE_WITHOUT: fprintf(to, "it never comes"); break;
    }
}

void why_print(uint64_t instruction, const struct order_answer *answer, FILE *to)
{
    fprintf(to, "instruction #%" PRIu64 ": ", instruction);
    if (!answer->found) {
        fprintf(to, "there is none\n");
        return;
    }
    if (answer->tick) {
        fprintf(to,
                "the tick at the end of window %" PRIu64 ", of which nothing was left (rule 4)\n",
                answer->window);
        return;
    }
    fprintf(to, "lane %" PRIu32 ", record %" PRIu64 ", in the chunk at offset 0x%" PRIx64 "\n",
            answer->lane, answer->record, answer->offset);
    fprintf(to, "  it is of window %" PRIu64 ", which was let in before #%" PRIu64 "%s (rule 4)\n",
            answer->window, answer->admitted_at,
            answer->overtook ? ", because nothing went on in the one before" : "");
    for (uint32_t i = 0; i < answer->waits_count; i++) {
        const struct order_wait *wait = &answer->waits[i];
        fprintf(to, "  record %" PRIu64 " waited ", wait->record);
        print_thing(wait, to);
        fprintf(to, ", from #%" PRIu64 " to #%" PRIu64 ": ", wait->from, wait->to);
        print_release(wait, to);
        fputc('\n', to);
    }
    fprintf(to, answer->waits_count == 0
                    ? "  it waited for nothing but the turn of its lane (rule 1)\n"
                    : "  then it was its lane's turn (rule 1)\n");
}
