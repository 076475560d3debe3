#include "profiler/base/device_spec.h"

#include <gmock/gmock.h>

#include "tests/support/error_of.h"

namespace mptune::profiler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::refusal_of;

DeviceSpec cpu(std::vector<int> cores) {
  return {.kind = DeviceSpec::Kind::cpu, .name = "cpu:x", .cores = std::move(cores), .index = 0};
}

TEST(DeviceSpec, NamesOfOneDevice) {
  EXPECT_EQ(parse_device("cpu:0").cores, std::vector<int>{0});
  EXPECT_THAT(parse_device("cpu:2-5").cores, ElementsAre(2, 3, 4, 5));
  EXPECT_EQ(parse_device("cpu:2-5").name, "cpu:2-5");
  EXPECT_EQ(parse_device("cpu:3-3").name, "cpu:3") << "one spelling for one device";
  EXPECT_EQ(parse_device("cuda:1").kind, DeviceSpec::Kind::cuda);
  EXPECT_EQ(parse_device("cuda:1").index, 1);
  EXPECT_EQ(parse_device("sleep:7").index, 7);
}

TEST(DeviceSpec, PartsOfAGpu) {
  const DeviceSpec second = parse_device("cuda:3/2of4");
  EXPECT_EQ(second.kind, DeviceSpec::Kind::cuda);
  EXPECT_EQ(second.name, "cuda:3/2of4");
  EXPECT_EQ(second.index, 3);
  EXPECT_EQ(second.part, 1);
  EXPECT_EQ(second.parts, 4);
  EXPECT_EQ(parse_device("cuda:3").parts, 1);
  EXPECT_EQ(parse_device("cuda:00/01of02").name, "cuda:0/1of2") << "one spelling for one device";
  for (const char* name : {"cuda:0/0of2", "cuda:0/3of2", "cuda:0/1of1", "cuda:0/1of17", "cuda:0/1", "cuda:0/of2", "cuda:0/1of",
                           "cuda:0/-1of2", "cuda:0/1of2/1of2", "cuda:/1of2", "cuda:0/1 of2", "cuda:256", "sleep:0/1of2", "cpu:0/1of2"})
    EXPECT_THAT(refusal_of([&] { (void)parse_device(name); }), HasSubstr(std::string("invalid device '") + name + "'")) << name;
}

TEST(DeviceSpec, RefusesWhatIsNoDevice) {
  for (const char* name :
       {"",      "cpu",     "cpu:",    "cpu:a",  "cpu:-1",  "cpu:3-1", "cpu:0-", "cpu:0-99999999", "cpu:0x", "gpu:0",
        "cuda:", "cuda:-1", "cuda:0/", "sleep:", "sleep:x", "CPU:0",   "cpu:0 ", " cpu:0",         "cpu:+1", "cpu:99999999999999999999"})
    EXPECT_THAT(refusal_of([&] { (void)parse_device(name); }), HasSubstr(std::string("invalid device '") + name + "'")) << name;
}

TEST(DeviceSpec, SaysWhyANameIsNoDevice) {
  const std::map<std::string, std::string> faults{{"cpu:1-0", "its last core comes before its first"},
                                                  {"cpu:0-4096", "cores are numbered up to 4095"},
                                                  {"sleep:100000", "there are at most 256"},
                                                  {"cuda:256", "GPUs are numbered up to 255"},
                                                  {"cuda:0/3of2", "its parts are numbered from 1 to 2"},
                                                  {"cuda:0/1of17", "a GPU has 2 to 16 parts"},
                                                  {"gpu:0", "there are cpu, cuda and sleep devices"}};
  for (const auto& [name, fault] : faults)
    EXPECT_THAT(refusal_of([&, &device = name] { (void)parse_device(device); }), HasSubstr("'" + name + "': " + fault)) << name;
}

TEST(DeviceSpec, FindsDevicesOfThisProgramOnly) {
  EXPECT_EQ(find_device("cpu:0-3"), parse_device("cpu:0-3"));
  EXPECT_EQ(find_device("GPU 0"), std::nullopt);
  EXPECT_EQ(find_device("cuda:300"), std::nullopt);
  EXPECT_EQ(device_kind("cuda:300"), DeviceSpec::Kind::cuda) << "of a trace of another program";
  EXPECT_EQ(device_kind("sleep:0"), DeviceSpec::Kind::sleep);
  EXPECT_EQ(device_kind("device:0"), std::nullopt);
  EXPECT_EQ(device_kind("cuda"), std::nullopt);
}

TEST(DeviceSpec, MakesNames) {
  EXPECT_EQ(gpu_name(2), "cuda:2");
  EXPECT_EQ(cpu_name(2, 2), "cpu:2");
  EXPECT_EQ(cpu_name(2, 5), "cpu:2-5");
  EXPECT_EQ(whole_device("cuda:0/1of2"), "cuda:0");
  EXPECT_EQ(whole_device("cpu:0-3"), "cpu:0-3");
}

TEST(DeviceSpec, WholeMachine) {
  EXPECT_EQ(whole_machine_device({cpu({0}), cpu({1})}), "cpu:0-1");
  EXPECT_EQ(whole_machine_device({cpu({2, 3}), cpu({0, 1})}), "cpu:0-3") << "order does not matter";
  EXPECT_EQ(whole_machine_device({cpu({0}), cpu({2})}), "") << "not contiguous";
  EXPECT_EQ(whole_machine_device({cpu({0, 1})}), "") << "one device";
  EXPECT_EQ(whole_machine_device({}), "");
  EXPECT_EQ(whole_machine_device({parse_device("sleep:0"), parse_device("sleep:1")}), "");
}

TEST(DeviceSpec, Classes) {
  EXPECT_EQ(device_class(parse_device("cpu:5")), "cpu/1");
  EXPECT_EQ(device_class(parse_device("cpu:0-3")), "cpu/4");
  EXPECT_EQ(device_class(parse_device("cuda:1")), "cuda");
  EXPECT_EQ(device_class(parse_device("cuda:0/2of2")), "cuda/2");
  EXPECT_EQ(device_class(parse_device("sleep:2")), "sleep");
}

TEST(DeviceSpec, KindsOfClasses) {
  for (const char* name : {"cpu:0-3", "cuda:1", "cuda:0/2of2", "sleep:2"})
    EXPECT_EQ(class_kind(device_class(parse_device(name))), device_kind(name)) << name;
  EXPECT_EQ(class_kind("V100"), std::nullopt);
}

}  // namespace
}  // namespace mptune::profiler
