#include "reports/render/links_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "profiler/base/index.h"

namespace mptune::reports {
namespace {

/// Links between all devices, at these rates by the sender.
Profile connected(const std::vector<double>& rates) {
  Profile profile;
  for (int i = 0; i < static_cast<int>(rates.size()); ++i) {
    profile.devices.push_back({.name = "sleep:" + std::to_string(i)});
    for (int k = 0; k < static_cast<int>(rates.size()); ++k)
      if (k != i) profile.links.push_back({.source = i, .destination = k, .latency_s = 1e-5, .bytes_per_second = rates[as_index(i)]});
  }
  return profile;
}

TEST(LinksText, AFewLinksAreListed) {
  EXPECT_EQ(links_text(connected({1e10, 8e9}), Listing::few),
            "link sleep:0 to sleep:1: 10.0 GB/s, latency 10.0 us\n"
            "link sleep:1 to sleep:0: 8.00 GB/s, latency 10.0 us\n");
  EXPECT_EQ(links_text(connected({1e10, 8e9}), Listing::few), links_text(connected({1e10, 8e9}), Listing::all));
  EXPECT_EQ(links_text({}, Listing::few), "");
}

TEST(LinksText, ManyHaveOneLine) {
  Profile profile = connected(std::vector<double>(5, 1e10));
  EXPECT_EQ(links_text(profile, Listing::few), "20 links: 10.0 GB/s, latency 10.0 us; -v lists them\n");
  profile.links[3].bytes_per_second = 8e9;
  profile.links[7].latency_s = 2e-5;
  EXPECT_EQ(links_text(profile, Listing::few), "20 links: 8.00 GB/s to 10.0 GB/s, latency 10.0 us to 20.0 us; -v lists them\n");
  const std::string all = links_text(profile, Listing::all);
  EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), 20);
  EXPECT_NE(all.find("link sleep:4 to sleep:0: 10.0 GB/s, latency 10.0 us\n"), std::string::npos);
}

TEST(LinksText, FourDevicesAreListedFiveAreNot) {
  const auto lines = [](std::size_t devices) {
    const std::string text = links_text(connected(std::vector<double>(devices, 1e10)), Listing::few);
    return std::count(text.begin(), text.end(), '\n');
  };
  EXPECT_EQ(lines(4), 12);
  EXPECT_EQ(lines(5), 1);
}

TEST(LinksText, CopiesOfHostMemoryAreSummedUpLikewise) {
  Profile profile;
  for (int i = 0; i < 7; ++i) {
    ProfileDevice device{.name = "cuda:" + std::to_string(i)};
    device.to_host = {.latency_s = 2e-5, .bytes_per_second = 2e10};
    device.from_host = {.latency_s = 1e-5, .bytes_per_second = 2.5e10};
    profile.devices.push_back(device);
  }
  EXPECT_EQ(links_text(profile, Listing::few),
            "14 copies to and from host memory: 20.0 GB/s to 25.0 GB/s, latency 10.0 us to 20.0 us; -v lists them\n");
  profile.devices.resize(1);
  EXPECT_EQ(links_text(profile, Listing::few),
            "copies cuda:0 to host memory: 20.0 GB/s, latency 20.0 us\n"
            "copies host memory to cuda:0: 25.0 GB/s, latency 10.0 us\n");
  profile.devices[0].to_host.device_copies = profile.devices[0].from_host.device_copies = true;
  EXPECT_EQ(links_text(profile, Listing::few), "");
}

}  // namespace
}  // namespace mptune::reports
