#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <random>

#include "profiler/trace/analyze/breakdown.h"
#include "tests/profiler/trace/store/scratch.h"

namespace mptune::profiler {
namespace {

class DocumentedQueries : public testing::Scratch {
 protected:
  // One line of output per query of profiler/trace/store/queries.md.
  std::vector<std::string> run() const {
    const std::string source = MPTUNE_SOURCE_DIR;
    const std::string command = std::string(MPTUNE_PYTHON) + " " + source + "/tests/profiler/trace/store/documented_queries.py " + path() +
                                " " + source + "/profiler/trace/store/queries.md";
    std::FILE* pipe = popen(command.c_str(), "r");
    std::string output;
    std::array<char, 4096> buffer{};
    while (std::fgets(buffer.data(), static_cast<int>(buffer.size()), pipe) != nullptr) output += buffer.data();
    EXPECT_EQ(pclose(pipe), 0);
    std::vector<std::string> lines;
    for (std::size_t start = 0; start < output.size(); start = output.find('\n', start) + 1)
      lines.push_back(output.substr(start, output.find('\n', start) - start));
    return lines;
  }
};

TEST_F(DocumentedQueries, AnswerOnTheHandMadeTrace) {
  write_hand_made();
  const std::vector<std::string> lines = run();
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_TRUE(lines[0].starts_with(R"([["CPU core set cpu:0", "forward conv1", 2, 20], )")) << lines[0];
  EXPECT_NE(lines[0].find(R"(["CPU core set cpu:1", "backward fc", 1, 44])"), std::string::npos) << lines[0];
  EXPECT_EQ(lines[1],
            R"([["CPU core set cpu:0", "CPU core set cpu:1", 1, 4096, 6], ["CPU core set cpu:1", "CPU core set cpu:0", 1, 4096, 5]])");
  EXPECT_EQ(lines[2], "[[0, 60], [1, 61]]");
}

TEST_F(DocumentedQueries, BusyTimeEqualsTheBreakdowns) {
  std::mt19937 random(1);
  for (int round = 0; round < 5; ++round) {
    Trace trace = testing::random_trace(random, 3, 200);
    trace.steps.clear();
    write_recording({.trace = trace}, path(), true);
    std::string expected;
    const StepBreakdown step = break_down(trace).steps.at(0);
    for (std::size_t d = 0; d < step.devices.size(); ++d) {
      const DeviceBreakdown& device = step.devices[d];
      expected += (d == 0 ? "[[" : ", [") + std::to_string(d) + ", " + std::to_string((device.window - device.idle).count()) + "]";
    }
    EXPECT_EQ(run().at(2), expected + "]");
  }
}

}  // namespace
}  // namespace mptune::profiler
