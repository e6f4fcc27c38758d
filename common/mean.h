/* mean - the mean of a sample, and how sure it is. */
#ifndef MALLOCTAPE_MEAN_H
#define MALLOCTAPE_MEAN_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* `least` to `most` is the 95 % confidence interval of the mean (Student's t). */
struct mean {
    double mean, least, most; /* NAN: not known */
};

/* With one value, only the mean is known; with none, nothing. If any value is NAN, all is. */
struct mean mean_of(const double *values, size_t count);

#ifdef __cplusplus
}
#endif
#endif
