/* mean - the mean of values that stand for many more, and how sure it is. */
#ifndef MALLOCTAPE_MEAN_H
#define MALLOCTAPE_MEAN_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The interval from `least` to `most` has the true mean with 95 % (Student's t). */
struct mean {
    double mean, least, most; /* NAN: not known */
};

/* Of one value, only the mean is known; of none, nothing. NAN among the values makes all NAN. */
struct mean mean_of(const double *values, size_t count);

#ifdef __cplusplus
}
#endif
#endif
