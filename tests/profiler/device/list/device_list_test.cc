#include "profiler/device/list/device_list.h"
#include "profiler/base/index.h"

#include <gmock/gmock.h>
#include <sched.h>

#include "profiler/base/error.h"
#include "profiler/device/list/gpu_driver.h"
#include "tests/support/error_of.h"

namespace mptune::profiler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::refusal_of;

std::vector<std::string> names_of(const std::vector<DeviceSpec>& devices) {
  std::vector<std::string> names;
  for (const DeviceSpec& device : devices) names.push_back(device.name);
  return names;
}

TEST(DeviceSpec, ListsOfDevices) {
  const int core = available_cores().front();
  EXPECT_EQ(names_of(parse_devices("cpu:" + std::to_string(core))), std::vector<std::string>{"cpu:" + std::to_string(core)});
  EXPECT_THAT(names_of(parse_devices("sleep:3")), ElementsAre("sleep:0", "sleep:1", "sleep:2"));
  EXPECT_EQ(names_of(parse_device_names({"sleep:3"})), std::vector<std::string>{"sleep:3"});
}

TEST(DeviceSpec, RefusesInvalidLists) {
  const std::string core = "cpu:" + std::to_string(available_cores().front());
  EXPECT_THAT(refusal_of([&] { (void)parse_devices(""); }), HasSubstr("invalid device"));
  EXPECT_THAT(refusal_of([&] { (void)parse_devices(core + ","); }), HasSubstr("invalid device"));
  EXPECT_THAT(refusal_of([&] { (void)parse_devices(core + "," + core); }), HasSubstr("named twice"));
  EXPECT_THAT(refusal_of([&] { (void)parse_devices("cpu:4000"); }), HasSubstr("core 4000 is not available"));
  EXPECT_THAT(refusal_of([&] { (void)parse_devices(core + ",sleep:2"); }), HasSubstr("mixed"));
  EXPECT_THAT(refusal_of([&] { (void)parse_devices("sleep:0"); }), HasSubstr("sleep:0"));
  EXPECT_THAT(refusal_of([&] { (void)parse_devices("sleep:2,sleep:2"); }), HasSubstr("twice"));
  EXPECT_THAT(refusal_of([&] { (void)parse_device_names({}); }), HasSubstr("no device"));
}

TEST(DeviceSpec, RefusesOneCoreInTwoDevices) {
  const std::vector<int> cores = available_cores();
  if (cores.size() < 2 || cores[1] != cores[0] + 1) {
    GTEST_SKIP() << "needs two neighbouring cores";
  }
  const std::string both = "cpu:" + std::to_string(cores[0]) + "-" + std::to_string(cores[1]);
  EXPECT_THAT(refusal_of([&] { (void)parse_devices(both + ",cpu:" + std::to_string(cores[1])); }), HasSubstr("belongs to two devices"));
}

TEST(DeviceChoices, PoolsAreEvenlyDivided) {
  const std::vector<int> cores = available_cores();
  if (cores.size() < 2 || cores[1] != cores[0] + 1) {
    GTEST_SKIP() << "needs two neighbouring cores";
  }
  const std::string pool = cpu_name(cores[0], cores[1]) + "/auto";
  const DeviceChoice choice = parse_device_choice(pool);
  EXPECT_THAT(names_of(choice.devices), ElementsAre(cpu_name(cores[0], cores[0]), cpu_name(cores[1], cores[1])));
  ASSERT_EQ(choice.pools.size(), 1U);
  EXPECT_EQ(choice.pools[0].name(), pool);
  EXPECT_TRUE(parse_device_choice("sleep:2").pools.empty());
  EXPECT_EQ(names_of(parse_device_choice("auto").devices), names_of(parse_devices("auto")));
  EXPECT_THAT(refusal_of([&] { (void)parse_devices(pool); }), HasSubstr(pool + " leaves open how it is divided"));
  EXPECT_THAT(refusal_of([&] { (void)parse_device_choice(pool + "," + cpu_name(cores[1], cores[1])); }),
              HasSubstr("overlaps with the pool " + pool));
  EXPECT_THAT(refusal_of([&] { (void)parse_device_choice(cpu_name(cores[1], cores[1]) + "," + pool); }),
              HasSubstr("overlaps with the pool " + pool));
  EXPECT_THAT(refusal_of([&] { (void)parse_device_choice(pool + "," + pool); }), HasSubstr("overlaps with the pool " + pool));
  EXPECT_THAT(refusal_of([&] { (void)parse_device_choice(pool + ",sleep:2"); }), HasSubstr("mixed"));
  EXPECT_THAT(refusal_of([] { (void)parse_device_choice("cpu:4000-4001/auto"); }), HasSubstr("core 4000 is not available"));
}

TEST(DeviceSpec, CudaWithoutDriverIsAnEnvironmentError) {
  if (gpu_driver().gpus > 0) {
    GTEST_SKIP() << "there is a GPU";
  }
  EXPECT_FALSE(gpu_driver().problem.empty());
  EXPECT_EQ(testing::error_of([] { (void)parse_device_choice("cuda:0/auto"); }).code(), ExitCode::environment);
  for (const char* name : {"cuda:0", "cuda:0/1of2"}) {
    const Error error = testing::error_of([&] { (void)parse_devices(name); });
    EXPECT_EQ(error.code(), ExitCode::environment);
    EXPECT_EQ(error.where(), name);
    EXPECT_EQ(error.problem(), gpu_driver().problem);
  }
}

TEST(GpuDeviceSpec, ListsOfGpus) {
  const int gpus = gpu_driver().gpus;
  if (gpus == 0) {
    GTEST_SKIP() << gpu_driver().problem;
  }
  EXPECT_EQ(static_cast<int>(parse_devices("auto").size()), gpus);
  EXPECT_EQ(parse_devices("auto")[0].name, "cuda:0");
  EXPECT_THAT(names_of(parse_devices("cuda:0/1of2,cuda:0/2of2")), ElementsAre("cuda:0/1of2", "cuda:0/2of2"));
  EXPECT_THAT(refusal_of([] { (void)parse_devices("cuda:0,cuda:0/2of2"); }), HasSubstr("divided in two ways"));
  EXPECT_THAT(refusal_of([] { (void)parse_devices("cuda:0/1of3,cuda:0/2of2"); }), HasSubstr("divided in two ways"));
  EXPECT_EQ(testing::error_of([&] { (void)parse_devices("cuda:" + std::to_string(gpus)); }).code(), ExitCode::environment);
}

TEST(DeviceSpec, AutoFollowsTheAffinityMask) {
  if (gpu_driver().gpus > 0) {
    GTEST_SKIP() << "auto is the GPUs";
  }
  const std::vector<DeviceSpec> devices = parse_devices("auto");
  const std::vector<int> cores = available_cores();
  ASSERT_EQ(devices.size(), std::min<std::size_t>(8, cores.size()));
  for (std::size_t i = 0; i < devices.size(); ++i) EXPECT_EQ(devices[i].cores, std::vector<int>{cores[i]});
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  CPU_SET(as_index(cores.back()), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(available_cores(), std::vector<int>{cores.back()});
  EXPECT_EQ(parse_devices("auto").size(), 1U);
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

TEST(Units, Link) {
  EXPECT_EQ(parse_link(""), LinkThrottle{});
  EXPECT_EQ(parse_link("12GB/s,10us"), (LinkThrottle{12e9, 10e-6}));
  EXPECT_EQ(parse_link("500MiB/s"), (LinkThrottle{500 * 0x1p20, 0}));
  for (const char* text :
       {"12GB", "12", "/s", "12/s", "fast", "12GB/s,", "12GB/s,10us,3", "12GB/s,10", "0GB/s", "-1GB/s", "12GB/s,2h", "1e300GB/s"})
    EXPECT_THAT(refusal_of([&] { (void)parse_link(text); }), HasSubstr("--link: ")) << text;
}

TEST(Units, Memory) {
  const std::vector<DeviceSpec> devices = {parse_device("cpu:0"), parse_device("cpu:1-2")};
  EXPECT_THAT(parse_memory("", devices), ElementsAre(0, 0));
  EXPECT_THAT(parse_memory("1KiB", devices), ElementsAre(1024, 1024));
  EXPECT_THAT(parse_memory("cpu:1-2=1KiB", devices), ElementsAre(0, 1024));
  EXPECT_THAT(parse_memory("cpu:1-2=1KiB,cpu:0=2KiB", devices), ElementsAre(2048, 1024));
  for (const char* text : {"cpu:3=1KiB", "cpu:0=", "cpu:0=1KiB,2KiB", "cpu:0=1KiB,cpu:0=1KiB", "=1KiB", "1KiB,2KiB"})
    EXPECT_THAT(refusal_of([&] { (void)parse_memory(text, devices); }), HasSubstr("--memory: ")) << text;
}

}  // namespace
}  // namespace mptune::profiler
