#include "profiler/trace/ranks/joined_profile.h"

#include <gtest/gtest.h>

#include "profiler/base/error.h"

namespace mptune::profiler {
namespace {

/// One layer, one class; `seconds` is the layer's forward.
HostProfile host(const std::string& device_class, const std::vector<std::string>& devices, double seconds) {
  HostProfile made;
  made.devices = devices;
  Profile& profile = made.profile;
  profile.fingerprint.model = "sha256:1";
  profile.layers.resize(1);
  DeviceClass costs;
  costs.name = device_class;
  costs.layers.resize(1);
  LayerCost cost;
  cost.samples = 1;
  cost.forward = exactly(seconds);
  costs.layers[0].by_samples.push_back(cost);
  profile.classes.push_back(costs);
  profile.co_running_slowdown = 2 * seconds;
  for (const std::string& device : devices) profile.devices.push_back({device.substr(device.find('@') + 1), 0, 0});
  for (int a = 0; a < static_cast<int>(devices.size()); ++a)
    for (int b = 0; b < static_cast<int>(devices.size()); ++b)
      if (a != b) profile.links.push_back({a, b, 1e-6, 1e10});
  return made;
}

const LinkCost& link_of(const Profile& profile, int source, int destination) {
  for (const LinkCost& link : profile.links)
    if (link.source == source && link.destination == destination) return link;
  throw Error("no link", "test", "");
}

std::vector<RankLink> both_ways(int a, int b, double latency_s, double bytes_per_second, bool shared) {
  return {{a, b, latency_s, bytes_per_second, shared}, {b, a, latency_s, bytes_per_second, shared}};
}

TEST(JoinedProfile, DevicesKeepTheOrderOfTheList) {
  const std::vector<std::string> devices{"1@cpu:0", "0@cpu:0", "0@cpu:1"};
  const Profile joined =
      join_profiles({host("cpu/1", {"0@cpu:0", "0@cpu:1"}, 1), host("cpu/1", {"1@cpu:0"}, 4)}, devices, both_ways(0, 1, 1e-3, 1e8, false));
  ASSERT_EQ(joined.devices.size(), 3U);
  for (std::size_t d = 0; d < devices.size(); ++d) EXPECT_EQ(joined.devices[d].name, devices[d]);
  EXPECT_EQ(joined.fingerprint.devices, devices);
  const auto forward_of = [&](int device) {
    return median(joined.classes.at(static_cast<std::size_t>(joined.devices[static_cast<std::size_t>(device)].device_class))
                      .layers[0]
                      .by_samples[0]
                      .forward);
  };
  EXPECT_EQ(forward_of(0), 4);
  EXPECT_EQ(forward_of(1), 1);
  EXPECT_EQ(forward_of(2), 1);
  EXPECT_EQ(joined.classes[0].name, "cpu/1");
  EXPECT_EQ(joined.classes[1].name, "cpu/1 of rank 1");
  EXPECT_DOUBLE_EQ(joined.co_running_slowdown, 4);  // of 2 and 8
  EXPECT_EQ(joined.links.size(), 6U);
  EXPECT_EQ(link_of(joined, 1, 2).latency_s, 1e-6);
  EXPECT_EQ(link_of(joined, 0, 2).latency_s, 1e-3);
}

TEST(JoinedProfile, RanksOfOneHostHaveTheLinksBetweenRanks) {
  const Profile joined =
      join_profiles({host("cpu/1", {"0@cpu:0", "1@cpu:1"}, 1)}, {"0@cpu:0", "1@cpu:1"}, both_ways(0, 1, 1e-3, 1e8, false));
  ASSERT_EQ(joined.links.size(), 2U);
  EXPECT_EQ(link_of(joined, 0, 1).bytes_per_second, 1e8);
}

TEST(JoinedProfile, DirectionsShareAMediumWhereTheyShareTheirTime) {
  for (const bool shared : {false, true}) {
    std::vector<RankLink> links = both_ways(0, 1, 1e-3, 1e8, shared);
    for (const auto& more : {both_ways(0, 2, 1e-3, 1e8, shared), both_ways(1, 2, 1e-3, 1e8, shared)})
      links.insert(links.end(), more.begin(), more.end());
    const Profile joined = join_profiles({host("cpu/1", {"0@cpu:0", "0@cpu:1", "1@cpu:2", "2@cpu:3"}, 1)},
                                         {"0@cpu:0", "0@cpu:1", "1@cpu:2", "2@cpu:3"}, links);
    const auto medium = [&](int source, int destination) { return link_of(joined, source, destination).medium; };
    EXPECT_EQ(medium(0, 1), -1);            // of one rank
    EXPECT_EQ(medium(0, 2), medium(1, 2));  // one connection
    EXPECT_EQ(medium(0, 2) == medium(2, 0), shared);
    EXPECT_NE(medium(0, 2), medium(0, 3));
    EXPECT_NE(medium(0, 2), medium(2, 3));
    EXPECT_NE(medium(0, 3), medium(2, 3));
    EXPECT_NE(medium(0, 3), medium(3, 2));
  }
}

TEST(JoinedProfile, MessagesOfGpusAreCopiedToTheHostAndBack) {
  HostProfile first = host("cuda", {"0@cuda:0"}, 1), second = host("cpu/1", {"1@cpu:0"}, 1);
  first.profile.devices[0].to_host = {1e-5, 2e8};
  first.profile.devices[0].from_host = {3e-5, 4e8};
  second.profile.devices[0].to_host = {1, 1};  // of saved activations: messages of a CPU lie in host memory
  const Profile joined = join_profiles({first, second}, {"0@cuda:0", "1@cpu:0"}, both_ways(0, 1, 1e-3, 1e8, false));
  EXPECT_DOUBLE_EQ(link_of(joined, 0, 1).latency_s, 1.01e-3);
  EXPECT_DOUBLE_EQ(link_of(joined, 0, 1).bytes_per_second, 1 / (1e-8 + 0.5e-8));
  EXPECT_DOUBLE_EQ(link_of(joined, 1, 0).latency_s, 1.03e-3);
  EXPECT_DOUBLE_EQ(link_of(joined, 1, 0).bytes_per_second, 1 / (1e-8 + 0.25e-8));
}

TEST(JoinedProfile, DevicesWithALinkOfTheirOwnDoWithoutTheHost) {
  HostProfile host_of_two = host("cuda", {"0@cuda:0", "1@cuda:1", "1@cuda:2"}, 1);
  for (ProfileDevice& device : host_of_two.profile.devices) device.to_host = device.from_host = {1e-5, 2e8};
  for (const bool shared : {false, true}) {
    const Profile joined = join_profiles({host_of_two}, {"0@cuda:0", "1@cuda:1", "1@cuda:2"}, both_ways(0, 1, 1e-3, 1e8, false),
                                         both_ways(0, 1, 2e-6, 4e11, shared));
    EXPECT_DOUBLE_EQ(link_of(joined, 0, 1).latency_s, 2e-6);
    EXPECT_DOUBLE_EQ(link_of(joined, 1, 0).bytes_per_second, 4e11);
    EXPECT_DOUBLE_EQ(link_of(joined, 0, 2).latency_s, 1e-3 + 2e-5);
    const auto medium = [&](int source, int destination) { return link_of(joined, source, destination).medium; };
    EXPECT_EQ(medium(0, 1) == medium(1, 0), shared);
    EXPECT_NE(medium(0, 1), medium(0, 2));
    EXPECT_NE(medium(1, 0), medium(2, 0));
  }
}

TEST(JoinedProfile, VariantsAndOperatorsFollowTheirClass) {
  HostProfile first = host("cpu/1", {"0@cpu:0"}, 1), second = host("cpu/2", {"1@cpu:0-1"}, 1);
  for (HostProfile* each : {&first, &second}) {
    DeviceClass variant = each->profile.classes[0];
    variant.variant_of = 0;
    each->profile.classes.push_back(variant);
    each->profile.operators.push_back({.device_class = 1, .layer = 0, .samples = 1, .name = "aten::mm"});
  }
  const Profile joined = join_profiles({first, second}, {"0@cpu:0", "1@cpu:0-1"}, both_ways(0, 1, 1e-3, 1e8, false));
  ASSERT_EQ(joined.classes.size(), 4U);
  EXPECT_EQ(joined.classes[1].variant_of, 0);
  EXPECT_EQ(joined.classes[3].variant_of, 2);
  EXPECT_EQ(joined.operators[1].device_class, 3);
  EXPECT_EQ(joined.devices[1].device_class, 2);
}

TEST(JoinedProfile, OtherModelsAndMissingLinksAreRefused) {
  HostProfile other = host("cpu/1", {"1@cpu:0"}, 1);
  other.profile.fingerprint.model = "sha256:2";
  const auto links = both_ways(0, 1, 1e-3, 1e8, false);
  EXPECT_THROW((void)join_profiles({host("cpu/1", {"0@cpu:0"}, 1), other}, {"0@cpu:0", "1@cpu:0"}, links), Error);
  EXPECT_THROW((void)join_profiles({host("cpu/1", {"0@cpu:0"}, 1), host("cpu/1", {"1@cpu:0"}, 1)}, {"0@cpu:0", "1@cpu:0"}, {links[0]}),
               Error);
}

}  // namespace
}  // namespace mptune::profiler
