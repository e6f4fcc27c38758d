#include "report/ages.h"

void ages_stretch(struct ages *ages, uint64_t call, uint64_t epoch)
{
    while (call >> ages->shift >= AGES_MAX) {
        for (unsigned i = 0; i < AGES_MAX; i++)
            live_settle(&ages->pieces[i], epoch);
        for (unsigned i = 0; i < AGES_MAX / 2; i++) {
            struct live sum = ages->pieces[2 * i];
            live_add(&sum, &ages->pieces[2 * i + 1]);
            ages->pieces[i] = sum;
        }
        for (unsigned i = AGES_MAX / 2; i < AGES_MAX; i++)
            ages->pieces[i] = (struct live){.epoch = epoch};
        ages->shift++;
    }
}
