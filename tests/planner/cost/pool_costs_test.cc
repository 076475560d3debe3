#include "planner/cost/pool_costs.h"

#include <gmock/gmock.h>

#include "planner/cost/cost_model.h"
#include "planner/simulate/simulate.h"
#include "tests/planner/pool_profiles.h"

namespace mptune::planner {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::measured_pool;
using testing::PoolShape;

PoolShape shape_of(int cores, double serial, double busy = 1) {
  PoolShape pool;
  pool.shape.busy = busy;
  pool.shape.bytes_per_second = 1e6;
  pool.cores = cores;
  pool.serial = serial;
  return pool;
}

TEST(PoolCosts, ProfilesWithoutPoolsStayAsTheyAre) {
  const Profile profile = testing::make_profile({.layers = 3, .devices = 2});
  EXPECT_EQ(with_pool_devices(profile), profile);
}

TEST(PoolCosts, EveryDeviceOfEveryDivisionIsKnown) {
  const Profile profile = with_pool_devices(measured_pool(shape_of(6, 0.2)));
  const CostModel cost(profile);
  for (const auto& division : divisions_of(parse_pool("cpu:0-5/auto")))
    for (const int a : cost.device_indices(division))
      for (const int b : cost.device_indices(division)) EXPECT_GE(cost.copy_seconds(a, b, 1000), 0);
}

// A part of each layer is serial, the rest is shared evenly: then nothing is lost by measuring powers of two alone.
TEST(PoolCosts, InterpolationIsExactForSerialAndSharedParts) {
  const PoolShape pool = shape_of(16, 0.15);
  const CostModel cost(with_pool_devices(measured_pool(pool)));
  const double alone = cost.layer(cost.device_index("cpu:0"), 1, 4).forward_s;
  for (const int cores : {3, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15}) {
    const int device = cost.device_index(cpu_name(0, cores - 1));
    EXPECT_NEAR(cost.layer(device, 1, 4).forward_s, alone * (0.15 + 0.85 / cores), 2e-9) << cores;
  }
}

TEST(PoolCosts, MoreCoresAreNeverSlowerWhereNoneMeasuredAre) {
  const CostModel cost(with_pool_devices(measured_pool(shape_of(13, 0.4))));
  for (int cores = 2; cores <= 13; ++cores)
    EXPECT_LE(cost.layer(cost.device_index(cpu_name(0, cores - 1)), 0, 3).backward_s,
              cost.layer(cost.device_index(cpu_name(0, cores - 2)), 0, 3).backward_s);
}

TEST(PoolCosts, SaysWhatIsInterpolated) {
  const Profile profile = with_pool_devices(measured_pool(shape_of(16, 0.1)));
  EXPECT_THAT(interpolated_cores(profile, {"cpu:0-9", "cpu:10-15"}), ElementsAre(6, 10));
  EXPECT_THAT(interpolated_cores(profile, {"cpu:0-7", "cpu:8-15"}), IsEmpty());
}

TEST(PoolCosts, VariantsAreInterpolatedToo) {
  Profile measured = measured_pool(shape_of(8, 0.1));
  for (const int index : {1, 2, 3}) {
    DeviceClass fewer = measured.classes[0];
    fewer.name = measured.classes[as_index(index)].name;
    fewer.variant = {MemoryFormat::contiguous, false, 1};
    fewer.variant_of = index;
    measured.classes.push_back(fewer);
  }
  const Profile profile = with_pool_devices(measured);
  const CostModel one(profile, ExecutionVariant{MemoryFormat::contiguous, false, 1});
  const double alone = one.layer(one.device_index("cpu:0"), 0, 2).forward_s;
  EXPECT_NEAR(one.layer(one.device_index("cpu:0-4"), 0, 2).forward_s, alone, 2e-9) << "one thread of five cores";
  EXPECT_NEAR(one.layer(one.device_index("cpu:0-3"), 0, 2).forward_s, alone, 2e-9);
}

// All other cores busy: each device is as slow as measured, however the cores are divided.
TEST(PoolCosts, BusyNeighboursCountByTheirCores) {
  const CostModel cost(with_pool_devices(measured_pool(shape_of(4, 0.1, 1.5))));
  EXPECT_EQ(cost.neighbours(cost.device_index("cpu:0-1")), 2);
  EXPECT_EQ(cost.weight(cost.device_index("cpu:0-1")), 2);
  EXPECT_EQ(cost.neighbours(cost.device_index("cpu:3")), 3);
  EXPECT_EQ(cost.neighbours(cost.device_index("cpu:0-3")), 0) << "nothing is beside it";
  const CostModel plain(testing::make_profile({.layers = 1, .devices = 3, .busy = 1.5}));
  EXPECT_EQ(plain.weight(0), 1);
}

TEST(PoolCosts, DevicesOfOneSizeAreAlike) {
  Profile measured = measured_pool(shape_of(4, 0.1));
  for (std::size_t i = 0; i < measured.links.size(); ++i) measured.links[i].latency_s = 1e-5 * static_cast<double>(i + 1);  // noise
  const CostModel cost(with_pool_devices(measured));
  const std::vector<int> ones = cost.device_indices({"cpu:0", "cpu:1", "cpu:2", "cpu:3"});
  for (const int a : ones)
    for (const int b : ones) EXPECT_EQ(cost.copy_seconds(a, b, 100), a == b ? 0 : cost.copy_seconds(ones[0], ones[1], 100));
}

}  // namespace
}  // namespace mptune::planner
