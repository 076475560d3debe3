#include <gtest/gtest.h>

#include "mptune/profiler/device/cpu_allocator.h"

int main(int argc, char** argv) {
  mptune::install_cpu_accounting();
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
