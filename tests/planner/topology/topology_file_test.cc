#include "planner/topology/topology_file.h"

#include <gtest/gtest.h>

#include <string>

#include "planner/cost/cost_model.h"
#include "planner/topology/topology_profile.h"
#include "tests/planner/profiles.h"
#include "tests/planner/topology/topologies.h"
#include "tests/support/error_of.h"

namespace mptune::testing {
namespace {

using planner::parse_topology;
using planner::Topology;

constexpr const char* kHosts = R"({"name": "node", "count": 64, "devices": 8, "memory": "80GiB",
                                  "link": {"bandwidth": "300GB/s", "latency": "5us"}})";
constexpr const char* kBetween = R"({"bandwidth": "25GB/s", "latency": "10us", "shared": "host"})";

std::string file_of(const std::string& hosts, const std::string& between) {
  return R"({"schema": "mptune.topology/1", "hosts": [)" + hosts + R"(], "between_hosts": )" + between + "}";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string refusal(const std::string& text) {
  return refusal_of([&] { (void)parse_topology(text, "t.json"); });
}

TEST(TopologyFile, Reads) {
  const Topology topology = parse_topology(file_of(kHosts, kBetween), "t.json");
  ASSERT_EQ(topology.groups.size(), 1U);
  EXPECT_EQ(topology.groups[0].memory_bytes, std::int64_t{80} << 30);
  EXPECT_EQ(topology.groups[0].link, (NetworkLink{5e-6, 3e11}));
  EXPECT_EQ(topology.between, (NetworkLink{1e-5, 2.5e10}));
  EXPECT_TRUE(topology.shared_per_host);
  EXPECT_EQ(topology.device_count(), 512);
  EXPECT_EQ(planner::describe(topology), "64 hosts of 8 devices");
}

TEST(TopologyFile, LinksThatNothingUsesMayBeAbsent) {
  const Topology one = parse_topology(file_of(replaced(kHosts, "64", "1"), "null"), "t.json");
  EXPECT_EQ(one.device_count(), 8);
  const Topology single =
      parse_topology(file_of(R"({"name": "a", "count": 4, "devices": 1})", R"({"bandwidth": "1GB/s", "latency": "0us"})"), "t");
  EXPECT_EQ(single.device_count(), 4);
  EXPECT_EQ(planner::describe(single), "4 hosts of 1 device");
  EXPECT_FALSE(single.shared_per_host);
}

TEST(TopologyFile, ReadsSpeeds) {
  EXPECT_EQ(parse_topology(file_of(kHosts, kBetween), "t").groups[0].speed, 1);
  const auto with_speed = [](const std::string& speed) {
    return file_of(replaced(kHosts, "64,", "64, \"speed\": " + speed + ","), kBetween);
  };
  EXPECT_EQ(parse_topology(with_speed("0.6"), "t").groups[0].speed, 0.6);
  EXPECT_EQ(parse_topology(with_speed("null"), "t").groups[0].speed, 1);
  for (const char* speed : {"0", "-1", "0.0009", "1001", "1e300"})
    EXPECT_EQ(refusal(with_speed(speed)), "t.json: hosts[0].speed is not from 0.001 to 1000") << speed;
  for (const char* speed : {"\"fast\"", "true", "[1]", "{}"})
    EXPECT_EQ(refusal(with_speed(speed)), "t.json: hosts[0].speed must be a number") << speed;
}

TEST(TopologyFile, IgnoresUnknownKeys) {
  EXPECT_EQ(parse_topology(file_of(replaced(kHosts, "\"count\"", "\"rack\": 3, \"count\""), kBetween), "t"),
            parse_topology(file_of(kHosts, kBetween), "t"));
}

TEST(TopologyFile, SaysWhatIsWrongWhere) {
  EXPECT_EQ(refusal(file_of(replaced(kHosts, "\"count\": 64, ", ""), kBetween)), "t.json: hosts[0].count is missing");
  EXPECT_EQ(refusal(file_of(replaced(kHosts, "64", "0"), kBetween)), "t.json: hosts[0].count is not from 1 to 100000");
  EXPECT_EQ(refusal(file_of(replaced(kHosts, "64", "-3"), kBetween)), "t.json: hosts[0].count is not from 1 to 100000");
  EXPECT_EQ(refusal(file_of(replaced(kHosts, "64", "1e300"), kBetween)), "t.json: hosts[0].count must be a whole number");
  EXPECT_EQ(refusal(file_of(replaced(kHosts, "64", "\"many\""), kBetween)), "t.json: hosts[0].count must be a whole number");
  EXPECT_EQ(refusal(file_of(replaced(kHosts, "\"devices\": 8", "\"devices\": 257"), kBetween)),
            "t.json: hosts[0].devices is not from 1 to 256");
  EXPECT_EQ(refusal(file_of(replaced(kHosts, "64", "20000"), kBetween)), "t.json: hosts has 160000 devices, more than 100000");
  EXPECT_EQ(refusal(file_of(replaced(kHosts, "300GB/s", "300GB"), kBetween)),
            "t.json: hosts[0].link.bandwidth is not a bandwidth such as \"300GB/s\"");
  EXPECT_EQ(refusal(file_of(replaced(kHosts, "300GB/s", "0GB/s"), kBetween)),
            "t.json: hosts[0].link.bandwidth is not from 1 B/s to 1000 TB/s");
  EXPECT_EQ(refusal(file_of(replaced(kHosts, "5us", "5"), kBetween)), "t.json: hosts[0].link.latency is not a time such as \"5us\"");
  EXPECT_EQ(refusal(file_of(replaced(kHosts, "5us", "2min"), kBetween)), "t.json: hosts[0].link.latency is more than 60 s");
  EXPECT_EQ(refusal(file_of(replaced(kHosts, "80GiB", "0GiB"), kBetween)), "t.json: hosts[0].memory is not a size such as \"80GiB\"");
  EXPECT_EQ(refusal(file_of(replaced(kHosts, "node", "no\\u001bde"), kBetween)), "t.json: hosts[0].name holds a control character");
  EXPECT_EQ(refusal(file_of(std::string(kHosts) + "," + kHosts, kBetween)), "t.json: hosts names 'node' twice");
  EXPECT_EQ(refusal(file_of("", kBetween)), "t.json: hosts names no hosts");
  EXPECT_EQ(refusal(file_of("3", kBetween)), "t.json: hosts[0] is not a JSON object");
  EXPECT_EQ(refusal(file_of(kHosts, "null")), "t.json: between_hosts is not a JSON object");
  EXPECT_EQ(refusal(file_of(kHosts, replaced(kBetween, "\"host\"", "\"rack\""))),
            "t.json: between_hosts.shared is neither \"device\" nor \"host\"");
  EXPECT_EQ(refusal(replaced(file_of(kHosts, kBetween), "topology/1", "topology/2")),
            "t.json: schema is another version, 'mptune.topology/2': this program reads mptune.topology/1");
  EXPECT_EQ(refusal(replaced(file_of(kHosts, kBetween), "mptune.topology/1", "mptune.plan/1")),
            "t.json: schema is 'mptune.plan/1', not mptune.topology/1");
  EXPECT_EQ(refusal("[1]"), "t.json: the file is not a JSON object");
}

TEST(TopologyFile, RefusesEveryTruncation) {
  const std::string whole = file_of(kHosts, kBetween);
  for (std::size_t length = 0; length < whole.size(); ++length)
    EXPECT_EQ(error_of([&] { (void)parse_topology(whole.substr(0, length), "t.json"); }).code(), ExitCode::usage) << length;
}

TEST(TopologyProfile, NamesDevicesByRankAndKeepsCosts) {
  Profile profile = make_profile({.layers = 3, .devices = 2, .busy = 2});
  const Profile made = planner::on_topology(profile, make_topology(2, 2), "t.json");
  ASSERT_EQ(made.devices.size(), 4U);
  EXPECT_EQ(made.devices[0].name, "0@sleep:0");
  EXPECT_EQ(made.devices[3].name, "1@sleep:1");
  EXPECT_TRUE(made.links.empty());
  EXPECT_EQ(made.classes[0].layers[0].by_samples[0].forward, profile.classes[0].layers[0].by_samples[0].forward);
  EXPECT_TRUE(made.classes[0].layers[0].by_samples[0].forward_busy.empty());
  const CostModel cost(made);
  EXPECT_DOUBLE_EQ(cost.copy_seconds(0, 1, 3'000'000), 5e-6 + 1e-5);
  EXPECT_DOUBLE_EQ(cost.copy_seconds(1, 2, 2'000'000), 1e-5 + 1e-4);
  EXPECT_EQ(cost.copies().medium(1, 2), -1);
  EXPECT_EQ(CostModel(planner::on_topology(profile, make_topology(2, 2, true), "t")).copies().medium(3, 0), 1);
}

TEST(TopologyProfile, NamesDevicesOfEachKind) {
  Profile profile = make_profile({.layers = 2, .devices = 1});
  const auto second_name = [&](const std::string& device_class) {
    profile.classes[0].name = device_class;
    return planner::on_topology(profile, make_topology(1, 2), "t").devices[1].name;
  };
  EXPECT_EQ(second_name("cuda"), "0@cuda:1");
  EXPECT_EQ(second_name("cuda/2"), "0@cuda:0/2of2");
  EXPECT_EQ(second_name("cpu/1"), "0@cpu:1");
  EXPECT_EQ(second_name("cpu/4"), "0@cpu:4-7");
  EXPECT_EQ(second_name("device"), "0@device:1");
}

TEST(TopologyProfile, LinksThatNothingUsesHaveNoSpeed) {
  const Profile profile = make_profile({.layers = 3, .devices = 1});
  Topology one_host = make_topology(1, 2);
  one_host.between = {};
  Topology one_device = make_topology(2, 1);
  one_device.groups[0].link = {};
  for (const Topology& topology : {one_host, one_device}) {
    const CostModel cost(planner::on_topology(profile, topology, "t"));
    EXPECT_GT(cost.copy_seconds(0, 1, 1000), 0);
    EXPECT_NO_THROW(cost.require_countable(1000));
  }
}

TEST(TopologyProfile, DividesTimesBySpeed) {
  Profile profile = make_profile({.layers = 3, .devices = 1, .action_s = 0.01, .step_s = 0.1, .optimizer_s_per_byte = 1e-6});
  profile.classes.push_back(profile.classes.front());  // the same in another memory format
  profile.classes.back().variant = {.memory_format = MemoryFormat::channels_last};
  profile.classes.back().variant_of = 0;
  Topology topology = make_topology(1, 1);
  topology.groups.push_back(topology.groups.front());
  topology.groups.back().name = "old";
  topology.groups.back().speed = 0.5;
  const Profile made = planner::on_topology(profile, topology, "t");
  ASSERT_EQ(made.classes.size(), 4U);
  EXPECT_EQ(made.devices[1].name, "1@sleep:0");
  const CostModel cost(made);
  for (int layer = 0; layer < 3; ++layer) {
    const LayerTimes fast = cost.layer(0, layer, 4);
    const LayerTimes slow = cost.layer(1, layer, 4);
    EXPECT_DOUBLE_EQ(slow.forward_s, 2 * fast.forward_s);
    EXPECT_DOUBLE_EQ(slow.backward_s, 2 * fast.backward_s);
  }
  EXPECT_DOUBLE_EQ(made.classes[2].action_seconds, 0.02);
  EXPECT_DOUBLE_EQ(made.classes[2].optimizer_seconds_per_byte, 2e-6);
  EXPECT_EQ(made.classes[3].variant_of, 2);
  EXPECT_EQ(made.classes[3].variant.memory_format, MemoryFormat::channels_last);
  EXPECT_EQ(planner::topology_assumption(profile, topology, "t"),
            "devices of node as fast as sleep of the profile, alone, of old 0.5 times as fast as sleep of the profile, alone; links as the "
            "topology says");
}

TEST(TopologyProfile, RefusesUnknownClasses) {
  Topology topology = make_topology(1, 2);
  topology.groups[0].like = "tpu";
  const Error error = error_of([&] { (void)planner::on_topology(make_profile({}), topology, "t.json"); });
  EXPECT_EQ(error.problem(), "hosts 'node' are like 'tpu', which the profile does not have");
  EXPECT_EQ(error.remedy(), "use one of its classes (sleep), or one of its devices");
}

}  // namespace
}  // namespace mptune::testing
