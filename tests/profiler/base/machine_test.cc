#include "profiler/base/machine.h"

#include <gtest/gtest.h>

namespace mptune {
namespace {

TEST(Machine, GoesThroughItsText) {
  const Machine machine{.cpu = "EPYC \"7763\"", .cores = 64, .clock_mhz = 2450};
  EXPECT_EQ(machine_from_json(machine_to_json(machine)), machine);
  EXPECT_EQ(machine_from_json(machine_to_json({})), Machine{});
}

TEST(Machine, OfATextThatSaysOtherwiseIsNotKnown) {
  for (const char* text : {"", "{", "[]", "3", R"({"cpu": 3, "cores": "many", "clock_mhz": 1.5})", R"({"cores": -1})"})
    EXPECT_EQ(machine_from_json(text), Machine{}) << text;
  EXPECT_EQ(machine_from_json("{\"cores\": 8, \"cpu\": \"\xff\"}"), Machine{}) << "damaged UTF-8";
  EXPECT_EQ(machine_from_json(machine_to_json({.cpu = "\xff", .cores = 8, .clock_mhz = 0})).cores, 8);
}

TEST(Machine, ThisOneHasCores) {
  EXPECT_GT(this_machine().cores, 0);
}

}  // namespace
}  // namespace mptune
