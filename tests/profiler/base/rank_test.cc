#include "profiler/base/rank.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

#include "profiler/base/device_spec.h"
#include "tests/support/error_of.h"

namespace mptune {
namespace {

/// The place that such an environment gives.
RankPlace place_in(const std::map<std::string, std::string>& environment) {
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_RESTART_COUNT",
                           "TORCHELASTIC_RUN_ID", "MPTUNE_RANKS_TOKEN"})
    ::unsetenv(name);
  for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
  return rank_place();
}

TEST(RankPlace, AProcessAloneIsRank0Of1) {
  EXPECT_EQ(place_in({}), RankPlace{});
  EXPECT_EQ(place_in({{"RANK", "1"}}), RankPlace{}) << "it says nothing without a number of ranks";
  EXPECT_EQ(place_in({{"RANK", "0"}, {"WORLD_SIZE", "1"}}), RankPlace{});
}

TEST(RankPlace, TorchrunSaysWhichRankThisIs) {
  EXPECT_EQ(place_in({{"RANK", "3"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "host"}, {"MASTER_PORT", "29500"}}),
            (RankPlace{.rank = 3, .ranks = 4, .address = "host", .port = 29500}));
  EXPECT_EQ(place_in({{"RANK", "1"},
                      {"WORLD_SIZE", "2"},
                      {"MASTER_ADDR", "::1"},
                      {"MASTER_PORT", "1"},
                      {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                      {"TORCHELASTIC_RESTART_COUNT", "2"}}),
            (RankPlace{.rank = 1, .ranks = 2, .address = "::1", .port = 1, .store_runs = true, .attempt = 2}));
}

TEST(RankPlace, ATokenIsTheLaunchersOrTheRunsName) {
  std::map<std::string, std::string> torchrun{
      {"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "host"}, {"MASTER_PORT", "1"}, {"TORCHELASTIC_RUN_ID", "run"}};
  EXPECT_EQ(place_in(torchrun).token, "run");
  torchrun["MPTUNE_RANKS_TOKEN"] = "secret";
  EXPECT_EQ(place_in(torchrun).token, "secret");
}

TEST(RankPlace, NonsenseIsRefused) {
  const std::map<std::string, std::string> good{{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "host"}, {"MASTER_PORT", "29500"}};
  for (const auto& [name, value] : std::map<std::string, std::string>{
           {"RANK", "2"}, {"WORLD_SIZE", "0"}, {"MASTER_PORT", "70000"}, {"MASTER_ADDR", ""}, {"TORCHELASTIC_RESTART_COUNT", "-1"}}) {
    auto environment = good;
    environment[name] = value;
    const Error error = testing::error_of([&] { (void)place_in(environment); });
    EXPECT_EQ(error.code(), ExitCode::usage) << name;
  }
  for (const char* text : {"one", "1.5", "-1", "99999999999999999999"})
    EXPECT_EQ(testing::error_of([&] { (void)place_in({{"RANK", text}, {"WORLD_SIZE", "2"}}); }).code(), ExitCode::usage) << text;
  (void)place_in({});
}

TEST(DevicesOfRanks, HaveTheirNumberInFront) {
  const DeviceSpec gpu = parse_device("12@cuda:3/1of2");
  EXPECT_EQ(gpu.name, "12@cuda:3/1of2");
  EXPECT_EQ(gpu.rank, 12);
  EXPECT_EQ(gpu.index, 3);
  EXPECT_EQ(device_class(gpu), "cuda/2");
  EXPECT_EQ(parse_device("0@cpu:0-0").name, "0@cpu:0");
  EXPECT_EQ(without_rank("1@cpu:2"), "cpu:2");
  EXPECT_EQ(without_rank("cpu:2"), "cpu:2");
  EXPECT_EQ(device_kind("1@cuda:0"), DeviceSpec::Kind::cuda);
  EXPECT_TRUE(names_rank("1@cuda:0"));
  EXPECT_FALSE(names_rank("cuda:0"));
  for (const char* name : {"@cpu:0", "-1@cpu:0", "x@cpu:0", "1@", "1@2@cpu:0", "4096@cpu:0", "1@gpu:0"})
    EXPECT_EQ(find_device(name), std::nullopt) << name;
}

}  // namespace
}  // namespace mptune
