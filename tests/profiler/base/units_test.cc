#include "profiler/base/units.h"

#include <gmock/gmock.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/error_of.h"

namespace mptune::profiler {
namespace {

using ::testing::HasSubstr;

TEST(Units, ParsesBytes) {
  const std::vector<std::pair<std::string, std::int64_t>> good = {{"1000", 1000},       {"1B", 1},           {"2kB", 2000},
                                                                  {"1.5MB", 1'500'000}, {"2GB", 2000000000}, {"1KiB", 1024},
                                                                  {"2GiB", 2147483648}, {"0.5MiB", 524288},  {"3 MiB", 3145728}};
  for (const auto& [text, bytes] : good) EXPECT_EQ(parse_bytes(text, "--memory"), bytes) << text;
  for (const char* text : {"", "x", "GiB", "2gib", "-1", "-1GiB", "0", "nan", "inf", "1e30", "2GiBs", "2097152TiB", "1,5GiB", "0x10"})
    EXPECT_THAT(testing::refusal_of([&] { (void)parse_bytes(text, "--memory"); }), HasSubstr("--memory: ")) << text;
}

TEST(Units, ParsesSeconds) {
  const std::vector<std::pair<std::string, double>> good = {{"150s", 150},  {"150", 150},   {"5min", 300},  {"1.5h", 5400},
                                                            {"200ms", 0.2}, {"10us", 1e-5}, {"20ns", 2e-8}, {"0", 0}};
  for (const auto& [text, seconds] : good) EXPECT_DOUBLE_EQ(parse_seconds(text, "--budget"), seconds) << text;
  for (const char* text : {"", "s", "-1s", "5 minutes", "5m", "1e99h", "nan", "5s5", "--"})
    EXPECT_THAT(testing::refusal_of([&] { (void)parse_seconds(text, "--budget"); }), HasSubstr("--budget: ")) << text;
}

TEST(Units, PrintsThreeDigits) {
  EXPECT_EQ(format_seconds(0), "0 s");
  EXPECT_EQ(format_seconds(0.4123), "412 ms");
  EXPECT_EQ(format_seconds(1.254), "1.25 s");
  EXPECT_EQ(format_seconds(0.99996), "1.00 s") << "rounding reaches the next unit";
  EXPECT_EQ(format_seconds(90), "90.0 s");
  EXPECT_EQ(format_seconds(300), "5.00 min");
  EXPECT_EQ(format_seconds(3.5e-5), "35.0 us");
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1536), "1.50 KiB");
  EXPECT_EQ(format_bytes(2147483648), "2.00 GiB");
  EXPECT_EQ(format_bandwidth(12e9), "12.0 GB/s");
  EXPECT_EQ(format_percent(0.1824), "18.2 %");
  EXPECT_EQ(format_count(25557032), "25.6 M");
  EXPECT_EQ(format_count(9999), "9999");
  EXPECT_EQ(format_count(12345), "12.3 k");
  EXPECT_EQ(format_count(345'500'000'000'000), "3.5 x 10^14");
  EXPECT_EQ(format_alike({0.412, 0.035}), std::pair(std::vector<std::string>({"412", "35.0"}), std::string("ms")));
  EXPECT_EQ(format_alike({}).second, "ns");
}

}  // namespace
}  // namespace mptune::profiler
