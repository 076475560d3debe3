#include "tests/support/svg.h"

#include <gmock/gmock.h>

#include <regex>
#include <string>
#include <vector>

namespace mptune::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

SvgChart two_series() {
  return {
      "Step <time> & \"more\"",
      "step in seconds",
      "samples per micro-batch",
      {"single device", "naive", "split 10"},
      {{"here", {1.0, 1.07, 0.5}, {Interval{0.9, 1.1}, std::nullopt, Interval{0.4, 0.6}}}, {"published", {1.0, std::nullopt, 0.25}, {}}}};
}

std::vector<double> numbers(const std::string& text, const std::string& pattern) {
  std::vector<double> found;
  const std::regex expression(pattern);
  for (std::sregex_iterator match(text.begin(), text.end(), expression), end; match != end; ++match)
    found.push_back(std::stod((*match)[1]));
  return found;
}

// Every tag is closed in order, and no attribute or text holds a bare mark.
bool well_formed(const std::string& xml) {
  std::vector<std::string> open;
  const std::regex token("<(/?)([a-z]+)((?: [a-zA-Z0-9:-]+=\"[^\"<>]*\")*)(/?)>|[^<>\"&]|&(?:lt|gt|amp|quot);");
  auto position = xml.begin();
  std::smatch match;
  while (std::regex_search(position, xml.end(), match, token, std::regex_constants::match_continuous)) {
    position = match[0].second;
    if (!match[2].matched || match[4].length() > 0) continue;
    if (match[1].length() == 0)
      open.push_back(match[2]);
    else if (open.empty() || open.back() != match[2])
      return false;
    else
      open.pop_back();
  }
  return position == xml.end() && open.empty();
}

TEST(Svg, FilesAreWellFormedAndNameNoOtherFile) {
  for (const std::string& drawn : {svg_bars(two_series()), svg_curve(two_series()), svg_bars({}), svg_curve({})}) {
    EXPECT_TRUE(well_formed(drawn)) << drawn;
    EXPECT_THAT(drawn, Not(HasSubstr("href")));
    EXPECT_EQ(drawn.find("http"), drawn.rfind("http")) << "only the name space is an address";
  }
  EXPECT_FALSE(well_formed("<svg><text></svg>"));
  EXPECT_FALSE(well_formed("<svg>a & b</svg>"));
}

TEST(Svg, BarsAreAsLongAsTheirValues) {
  const std::vector<double> widths = numbers(svg_bars(two_series()), "y=\"[0-9.]+\" width=\"([0-9.]+)\" height=\"16.0\"");
  ASSERT_EQ(widths.size(), 5U) << "the missing value has no bar";
  EXPECT_NEAR(widths[2] / widths[0], 1.07, 0.01);
  EXPECT_NEAR(widths[3] / widths[0], 0.5, 0.01);
  EXPECT_NEAR(widths[4] / widths[0], 0.25, 0.01);
}

TEST(Svg, ErrorBarsReachFromEndToEndOfTheIntervalWhereThereIsOne) {
  const std::string drawn = svg_bars(two_series());
  const std::vector<double> low = numbers(drawn, "class=\"error\" x1=\"([0-9.]+)\"");
  const std::vector<double> high = numbers(drawn, "class=\"error\" x1=\"[0-9.]+\" y1=\"[0-9.]+\" x2=\"([0-9.]+)\"");
  ASSERT_EQ(low.size(), 6U) << "two intervals of three lines";
  const double second = numbers(drawn, "width=\"([0-9.]+)\" height=\"16.0\"")[0];
  EXPECT_NEAR(high[0] - low[0], 0.2 * second, 0.2);
  EXPECT_NEAR(high[3] - low[3], 0.2 * second, 0.2);
}

TEST(Svg, CurvesRiseWithTheirValuesAndLeaveMissingOnesOut) {
  const std::string drawn = svg_curve(two_series());
  const std::vector<double> heights = numbers(drawn, "cy=\"([0-9.]+)\"");
  ASSERT_EQ(heights.size(), 5U);
  const double zero = 400 - 56;
  EXPECT_NEAR((zero - heights[1]) / (zero - heights[0]), 1.07, 0.01);
  EXPECT_NEAR((zero - heights[4]) / (zero - heights[3]), 0.25, 0.01);
}

TEST(Svg, TicksAreRoundAndCoverEverything) {
  SvgChart chart{"t", "v", "c", {"a"}, {{"s", {0.0}, {}}}};
  const auto ticks = [&](double value) {
    chart.series[0].values[0] = value;
    return numbers(svg_curve(chart), "text-anchor=\"end\" fill=\"#1f2937\">([0-9.e+-]+)<");
  };
  EXPECT_THAT(ticks(1.0), ElementsAre(0, 0.2, 0.4, 0.6, 0.8, 1.0));
  EXPECT_THAT(ticks(1.1), ElementsAre(0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2));
  EXPECT_THAT(ticks(47), ElementsAre(0, 10, 20, 30, 40, 50));
  EXPECT_THAT(ticks(0), ElementsAre(0, 1));
}

TEST(Svg, DrawsInTheDarkToo) {
  EXPECT_THAT(svg_bars(two_series()), HasSubstr("prefers-color-scheme: dark"));
}

}  // namespace
}  // namespace mptune::testing
