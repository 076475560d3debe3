#include "mptune/reports/cli/plan_choice.h"
#include "mptune/profiler/device/device_list.h"

#include <gtest/gtest.h>

namespace mptune {
namespace {

TEST(PlanChoice, AllCoresAsOneDeviceHaveTheMemoryOfOne) {
  const std::vector<DeviceSpec> devices = parse_devices("sleep:2");
  const auto cap_of = [&](const std::vector<std::int64_t>& caps) {
    return search_space({}, devices, caps, 8, {}).whole_machine_memory_bytes;
  };
  EXPECT_EQ(cap_of({200, 200}), 200);
  EXPECT_EQ(cap_of({200, 300}), 300);
  EXPECT_EQ(cap_of({200, 0}), 0) << "one device may use all there is";
}

}  // namespace
}  // namespace mptune
