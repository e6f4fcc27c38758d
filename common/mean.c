#include "common/mean.h"

#include <math.h>

/* Student's t for 95 %, by the degrees of freedom. */
static const double student[] = {NAN,   12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365,
                                 2.306, 2.262,  2.228, 2.201, 2.179, 2.160, 2.145, 2.131};
enum { STUDENT_LISTED = sizeof student / sizeof *student };

/* Beyond the table, two terms of the expansion around the normal distribution; the error is less
 * than 0.001. */
static double student_95(size_t freedom)
{
    const double z = 1.959964, f = (double)freedom;
    if (freedom < STUDENT_LISTED) return student[freedom];
    return z + z * (z * z + 1) / (4 * f) + z * (5 * z * z * z * z + 16 * z * z + 3) / (96 * f * f);
}

struct mean mean_of(const double *values, size_t count)
{
    double sum = 0, squares = 0;
    if (count == 0) return (struct mean){NAN, NAN, NAN};
    for (size_t i = 0; i < count; i++)
        sum += values[i];
    const double mean = sum / (double)count;
    if (count == 1) return (struct mean){mean, NAN, NAN};
    for (size_t i = 0; i < count; i++)
        squares += (values[i] - mean) * (values[i] - mean);
    const double half = student_95(count - 1) * sqrt(squares / (double)(count - 1) / (double)count);
    return (struct mean){mean, mean - half, mean + half};
}
