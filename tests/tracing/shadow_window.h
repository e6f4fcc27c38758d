/* shadow_window - for tests that map the window of the shadow table (tracing/data/shadow.h) where a
 * recording has it: with ThreadSanitizer they are skipped. */
#ifndef TESTS_TRACING_SHADOW_WINDOW_H
#define TESTS_TRACING_SHADOW_WINDOW_H

#ifdef __SANITIZE_THREAD__
#include <cstdio>
#include <cstdlib>
#include <gtest/gtest.h>

class NoWindow : public testing::Environment {
    void SetUp() override
    {
        puts("SKIP: the window lies where ThreadSanitizer lets nobody map anything");
        exit(77); // to automake: skipped
    }
};
static const auto *const no_window = testing::AddGlobalTestEnvironment(new NoWindow);
#endif

#endif
