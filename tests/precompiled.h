/* tests/precompiled.h - what test bodies in C++ have compiled beforehand (tests/Makefile.inc). */
#include <gtest/gtest.h>
