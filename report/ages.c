#include "report/ages.h"

static struct live sum(const struct live *one, const struct live *other)
{
    return (struct live){
        .objects = one->objects + other->objects,
        .bytes = one->bytes + other->bytes,
        .peak_objects = one->peak_objects + other->peak_objects,
        .peak_bytes = one->peak_bytes + other->peak_bytes,
        .epoch = one->epoch,
    };
}

void ages_stretch(struct ages *ages, uint64_t call, uint64_t epoch)
{
    while (call >> ages->shift >= AGES_MAX) {
        for (unsigned i = 0; i < AGES_MAX; i++)
            live_settle(&ages->pieces[i], epoch);
        for (unsigned i = 0; i < AGES_MAX / 2; i++)
            ages->pieces[i] = sum(&ages->pieces[2 * i], &ages->pieces[2 * i + 1]);
        for (unsigned i = AGES_MAX / 2; i < AGES_MAX; i++)
            ages->pieces[i] = (struct live){.epoch = epoch};
        ages->shift++;
    }
}
