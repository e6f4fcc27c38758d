#include "keep/triggers.h"

#include <string.h>

#include "common/amount.h"
#include "common/error.h"

#define TRIGGER_S_NS         UINT64_C(1000000000)
#define TRIGGER_REST_NS      (60 * TRIGGER_S_NS)
#define TRIGGER_REST_MOST_NS (24 * 3600 * TRIGGER_S_NS)

static const char *const trigger_names[TRIGGER_WHATS] = {[TRIGGER_RSS] = "rss",
                                                         [TRIGGER_LIVE] = "live",
                                                         [TRIGGER_HEAP] = "heap",
                                                         [TRIGGER_CALLS] = "calls/s"};

/* The rest of the text, behind the name and ">"; NULL: there is no such name. */
static const char *trigger_take_name(struct trigger *trigger)
{
    for (unsigned i = 0; i < TRIGGER_WHATS; i++) {
        const size_t bytes = strlen(trigger_names[i]);
        if (strncmp(trigger->text, trigger_names[i], bytes) != 0 || trigger->text[bytes] != '>')
            continue;
        trigger->what = i;
        return trigger->text + bytes + 1;
    }
    return NULL;
}

bool triggers_add(struct triggers *triggers, const char *text, char *why, size_t why_bytes)
{
    struct trigger trigger = {.text = text};
    if (triggers->count == TRIGGERS_MAX)
        return error_explain(why, why_bytes, "there are %d already", TRIGGERS_MAX);
    const char *at = trigger_take_name(&trigger);
    if (at == NULL)
        return error_explain(why, why_bytes,
                             "it does not begin with rss>, live>, heap> or calls/s>");
    trigger.is_growth = *at == '+';
    if (trigger.is_growth) at++;
    if (!amount_take_bytes(at, &at, &trigger.limit))
        return error_explain(why, why_bytes, "there is no number behind the >");
    trigger.is_share = trigger.is_growth && *at == '%';
    if (trigger.is_share) at++;
    if (trigger.is_share) trigger.limit /= 100;
    if (trigger.is_growth && (*at++ != '/' || !amount_take_ns(at, &at, &trigger.over_ns)))
        return error_explain(why, why_bytes, "growth needs a time, as in +20%%/10m");
    if (*at != '\0') return error_explain(why, why_bytes, "it goes on with '%.20s'", at);
    triggers->list[triggers->count++] = trigger;
    return true;
}

static double trigger_value(const struct triggers *triggers, const struct trigger *trigger,
                            const struct trigger_values *values)
{
    switch (trigger->what) {
    case TRIGGER_RSS: return (double)values->rss_bytes;
    case TRIGGER_LIVE: return (double)values->live_bytes;
    case TRIGGER_HEAP: return (double)values->heap_bytes;
    default: return triggers->calls_a_second;
    }
}

/* The least value of the time over which growth counts, the present one included. */
static double trigger_least(struct trigger *trigger, double value, uint64_t ns)
{
    const uint64_t part_ns = trigger->over_ns / TRIGGER_SLOTS + 1;
    const uint64_t slot = ns / part_ns + 1;
    if (trigger->slot == 0)
        for (unsigned i = 0; i < TRIGGER_SLOTS; i++)
            trigger->least[i] = value;
    uint64_t fresh =
        trigger->slot + TRIGGER_SLOTS > slot ? trigger->slot + 1 : slot - TRIGGER_SLOTS + 1;
    for (; fresh <= slot; fresh++)
        trigger->least[fresh % TRIGGER_SLOTS] = value;
    trigger->slot = slot;
    double *now = &trigger->least[slot % TRIGGER_SLOTS], least = value;
    if (value < *now) *now = value;
    for (unsigned i = 0; i < TRIGGER_SLOTS; i++)
        if (trigger->least[i] < least) least = trigger->least[i];
    return least;
}

static bool trigger_holds(struct trigger *trigger, double value, uint64_t ns)
{
    if (!trigger->is_growth) return value > trigger->limit;
    const double least = trigger_least(trigger, value, ns);
    return value > least + (trigger->is_share ? trigger->limit * least : trigger->limit);
}

static void triggers_count_calls(struct triggers *triggers, const struct trigger_values *values)
{
    const uint64_t passed = values->ns - triggers->second_ns;
    if (triggers->has_second && passed < TRIGGER_S_NS) return;
    if (triggers->has_second)
        triggers->calls_a_second =
            (double)(values->calls - triggers->second_calls) / ((double)passed / TRIGGER_S_NS);
    triggers->has_second = true;
    triggers->second_ns = values->ns;
    triggers->second_calls = values->calls;
}

static void trigger_rest(struct trigger *trigger, uint64_t ns)
{
    const uint64_t rest_ns = trigger->rest_ns > 0 ? 2 * trigger->rest_ns : TRIGGER_REST_NS;
    trigger->rest_ns = rest_ns < TRIGGER_REST_MOST_NS ? rest_ns : TRIGGER_REST_MOST_NS;
    trigger->fired_ns = ns;
}

const struct trigger *triggers_look(struct triggers *triggers, const struct trigger_values *values)
{
    const struct trigger *fired = NULL;
    triggers_count_calls(triggers, values);
    for (size_t i = 0; i < triggers->count; i++) {
        struct trigger *one = &triggers->list[i];
        const bool was_true = one->is_true;
        one->is_true = trigger_holds(one, trigger_value(triggers, one, values), values->ns);
        if (!one->is_true || was_true || fired != NULL) continue;
        if (values->ns - one->fired_ns < one->rest_ns) {
            one->is_true = false; /* it is asked again */
            continue;
        }
        trigger_rest(one, values->ns);
        fired = one;
    }
    return fired;
}
