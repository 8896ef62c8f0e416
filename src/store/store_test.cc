#include <gtest/gtest.h>
TEST(Store, placeholder) {}
