#include "profiler/base/device_pool.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "tests/support/error_of.h"

namespace mptune {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Names = std::vector<std::string>;

TEST(DevicePools, AreNamed) {
  EXPECT_TRUE(names_pool("cpu:0-1/auto"));
  EXPECT_FALSE(names_pool("auto")) << "all devices";
  EXPECT_EQ(parse_pool("cpu:0-15/auto").whole, parse_device("cpu:0-15"));
  EXPECT_EQ(parse_pool("cuda:1/auto").name(), "cuda:1/auto");
  for (const char* name :
       {"cpu:0-1", "cpu:3/auto", "sleep:4/auto", "cuda:0/1of2/auto", "/auto", "cpu/auto", "cpu:0-/auto", "cpu:0-1/auto/auto"})
    EXPECT_FALSE(find_pool(name)) << name;
}

TEST(DevicePools, RefusalsSayWhatHelps) {
  const auto remedy = [](const std::string& name) { return testing::error_of([&] { (void)parse_pool(name); }).remedy(); };
  EXPECT_THAT(remedy("cpu:3/auto"), HasSubstr("or the device cpu:3"));
  EXPECT_THAT(remedy("sleep:4/auto"), HasSubstr("sleep:K"));
  EXPECT_THAT(remedy("cuda:0/1of2/auto"), HasSubstr("cuda:0/auto"));
  EXPECT_THAT(remedy("cpu:a/auto"), HasSubstr("use cpu:0-15/auto or cuda:0/auto"));
  EXPECT_THAT(testing::refusal_of([] { (void)parse_pool("/auto"); }), HasSubstr("invalid pool"));
}

TEST(DevicePools, DivisionsDifferInTheirSizes) {
  EXPECT_THAT(divisions_of(parse_pool("cpu:0-1/auto")), ElementsAre(Names{"cpu:0-1"}, Names{"cpu:0", "cpu:1"}));
  EXPECT_THAT(divisions_of(parse_pool("cpu:4-7/auto")),
              ElementsAre(Names{"cpu:4-7"}, Names{"cpu:4-6", "cpu:7"}, Names{"cpu:4-5", "cpu:6-7"}, Names{"cpu:4-5", "cpu:6", "cpu:7"},
                          Names{"cpu:4", "cpu:5", "cpu:6", "cpu:7"}));
  EXPECT_EQ(divisions_of(parse_pool("cpu:0-15/auto")).size(), 186U) << "ways to write 16 as a sum of at most 8 numbers";
}

TEST(DevicePools, GpusAreDividedEqually) {
  const auto divisions = divisions_of(parse_pool("cuda:0/auto"));
  ASSERT_EQ(divisions.size(), 4U);
  EXPECT_THAT(divisions[0], ElementsAre("cuda:0"));
  EXPECT_THAT(divisions[2], ElementsAre("cuda:0/1of3", "cuda:0/2of3", "cuda:0/3of3"));
  EXPECT_THAT(even_division(parse_pool("cuda:0/auto")), ElementsAre("cuda:0"));
}

// Of every pool: each division uses all cores, each once, and the even one is among them.
TEST(DevicePools, DivisionsUseEveryCoreOnce) {
  for (int cores = 2; cores <= 70; ++cores) {
    const DevicePool pool{parse_device(cpu_name(3, cores + 2))};
    const auto divisions = divisions_of(pool);
    EXPECT_EQ(std::set<Names>(divisions.begin(), divisions.end()).size(), divisions.size());
    EXPECT_LE(divisions.size(), 186U) << cores;
    for (const Names& names : divisions) {
      std::vector<int> used;
      for (const std::string& name : names)
        for (const int core : parse_device(name).cores) used.push_back(core);
      EXPECT_EQ(used, pool.whole.cores) << cores;
      EXPECT_LE(names.size(), 8U);
    }
    EXPECT_NE(std::ranges::find(divisions, even_division(pool)), divisions.end()) << cores;
  }
}

TEST(DevicePools, SeveralPoolsAreDividedIndependently) {
  const auto lists = divided({parse_pool("cpu:0-1/auto"), parse_pool("cpu:4-5/auto")}, {"cuda:0"});
  ASSERT_EQ(lists.size(), 4U);
  EXPECT_THAT(lists[1], ElementsAre("cpu:0-1", "cpu:4", "cpu:5", "cuda:0"));
  EXPECT_THAT(testing::refusal_of([] {
                (void)divided({parse_pool("cpu:0-15/auto"), parse_pool("cpu:16-31/auto")}, {});
              }),
              HasSubstr("more than 1000 ways"));
}

TEST(DevicePools, MeasuredDevicesCoverEverySize) {
  EXPECT_THAT(measured_core_counts(2), ElementsAre(1, 2));
  EXPECT_THAT(measured_core_counts(12), ElementsAre(1, 2, 4, 8, 12));
  EXPECT_THAT(measured_devices(parse_pool("cpu:0-1/auto")), ElementsAre("cpu:0", "cpu:1", "cpu:0-1"));
  EXPECT_THAT(measured_devices(parse_pool("cpu:0-5/auto")),
              ElementsAre("cpu:0", "cpu:5", "cpu:0-1", "cpu:4-5", "cpu:0-3", "cpu:2-5", "cpu:0-5"));
  EXPECT_EQ(measured_devices(parse_pool("cuda:0/auto")).size(), 10U);
}

TEST(DevicePools, OthersFillThePool) {
  const auto others = [](const char* pool, const char* device) {
    Names names;
    for (const DeviceSpec& other : others_in_pool(parse_pool(pool), parse_device(device))) names.push_back(other.name);
    return names;
  };
  EXPECT_THAT(others("cpu:0-1/auto", "cpu:0"), ElementsAre("cpu:1"));
  EXPECT_THAT(others("cpu:2-6/auto", "cpu:2-3"), ElementsAre("cpu:4-5", "cpu:6"));
  EXPECT_THAT(others("cpu:0-1/auto", "cpu:0-1"), ElementsAre());
  EXPECT_THAT(others("cuda:1/auto", "cuda:1/1of3"), ElementsAre("cuda:1/2of3", "cuda:1/3of3"));
}

TEST(DevicePools, BesideADeviceAllOtherPoolsAndDevicesCompute) {
  const auto beside = [](const char* device) {
    std::vector<std::string> names;
    const std::vector<DevicePool> pools{parse_pool("cpu:0-1/auto"), parse_pool("cpu:4-6/auto")};
    const std::vector<DeviceSpec> devices{parse_device("cpu:0"), parse_device("cpu:4"), parse_device("cpu:8"), parse_device("cpu:9")};
    for (const DeviceSpec& other : devices_beside(parse_device(device), pools, devices)) names.push_back(other.name);
    return names;
  };
  EXPECT_THAT(beside("cpu:0"), ElementsAre("cpu:1", "cpu:4", "cpu:5", "cpu:6", "cpu:8", "cpu:9"));
  EXPECT_THAT(beside("cpu:4-5"), ElementsAre("cpu:0", "cpu:1", "cpu:6", "cpu:8", "cpu:9"));
  EXPECT_THAT(beside("cpu:8"), ElementsAre("cpu:0", "cpu:1", "cpu:4", "cpu:5", "cpu:6", "cpu:9"));
}

TEST(DevicePools, OverlapIsSharingCoresOrAGpu) {
  const auto overlaps = [](const char* a, const char* b) { return overlap(parse_device(a), parse_device(b)); };
  EXPECT_TRUE(overlaps("cpu:0-3", "cpu:3-4"));
  EXPECT_FALSE(overlaps("cpu:0-3", "cpu:4"));
  EXPECT_TRUE(overlaps("cuda:0", "cuda:0/1of2"));
  EXPECT_TRUE(overlaps("cuda:0/1of2", "cuda:0/3of3"));
  EXPECT_FALSE(overlaps("cuda:0/1of2", "cuda:0/2of2"));
  EXPECT_FALSE(overlaps("cuda:0", "cuda:1"));
  EXPECT_FALSE(overlaps("cuda:0", "cpu:0"));
  EXPECT_TRUE(in_pool(parse_device("cpu:1-2"), parse_pool("cpu:0-3/auto")));
  EXPECT_FALSE(in_pool(parse_device("cpu:3-4"), parse_pool("cpu:0-3/auto")));
  EXPECT_TRUE(in_pool(parse_device("cuda:0/1of2"), parse_pool("cuda:0/auto")));
  EXPECT_FALSE(in_pool(parse_device("cuda:0"), parse_pool("cpu:0-3/auto")));
}

}  // namespace
}  // namespace mptune
