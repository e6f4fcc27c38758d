/* test_size - how much of something a test does: with MALLOCTAPE_LONG in the environment (make
 * check-long) the second, as size() of tap.sh and tap.rb. */
#ifndef MALLOCTAPE_TESTS_TEST_SIZE_H
#define MALLOCTAPE_TESTS_TEST_SIZE_H

#include <cstdlib>

inline int test_size(int normal, int in_long_form)
{
    return std::getenv("MALLOCTAPE_LONG") == nullptr ? normal : in_long_form;
}

#endif
