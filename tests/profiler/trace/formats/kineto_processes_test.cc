#include "profiler/trace/formats/kineto_processes.h"

#include <gmock/gmock.h>

#include <random>

#include "profiler/base/index.h"
#include "profiler/trace/analyze/breakdown.h"
#include "profiler/trace/formats/any_trace.h"
#include "profiler/trace/formats/kineto.h"
#include "profiler/trace/ranks/merge_ranks.h"
#include "tests/profiler/trace/formats/files.h"

namespace mptune::profiler {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class MergedKineto : public mptune::testing::Files {
 protected:
  /// Rows of one rank: 20 kernels of `busy_us`, one each 100 us from `begin_us` on, in one step. All ranks use the same correlations.
  static std::vector<std::string> rows(const std::string& host, const std::string& gpu, int busy_us, int begin_us) {
    std::vector<std::string> all;
    const auto row = [&](const char* category, const std::string& name, const std::string& process, int start, int duration,
                         const std::string& args) {
      all.push_back(R"({"ph": "X", "cat": ")" + std::string(category) + R"(", "name": ")" + name + R"(", "pid": )" + process +
                    R"(, "tid": 7, "ts": )" + std::to_string(start) + R"(, "dur": )" + std::to_string(duration) + R"(, "args": {)" + args +
                    "}}");
    };
    row("user_annotation", "ProfilerStep#0", host, begin_us, 1990, "");
    for (int i = 0; i < 20; ++i) {
      const std::string correlation = R"("correlation": )" + std::to_string(10 + i);
      row("cuda_runtime", "cudaLaunchKernel", host, begin_us + 100 * i + 1, 2, correlation);
      row("kernel", "gemm", gpu, begin_us + 100 * i + 5, busy_us, R"("device": 0, "stream": 7, )" + correlation);
    }
    return all;
  }

  std::string file(const std::vector<std::vector<std::string>>& ranks, unsigned seed = 0) const {
    std::vector<std::string> all;
    for (const std::vector<std::string>& rank : ranks) all.insert(all.end(), rank.begin(), rank.end());
    std::mt19937 random(seed);
    if (seed != 0) std::shuffle(all.begin(), all.end(), random);
    std::string text;
    for (const std::string& row : all) text += (text.empty() ? "" : ",\n") + row;
    return put("merged.json", R"({"distributedInfo": {"rank": 0, "world_size": 2}, "traceEvents": [)" + text + "]}");
  }

  static std::vector<std::pair<std::string, double>> busy(const Trace& trace) {
    std::vector<std::pair<std::string, double>> shares;
    const Breakdown breakdown = break_down(trace);
    for (std::size_t d = 0; d < trace.devices.size(); ++d) {
      const DeviceBreakdown device = mean_over_steps(breakdown, static_cast<int>(d));
      shares.emplace_back(trace.devices[d].name,
                          std::round(100.0 * static_cast<double>(device.compute.count()) / static_cast<double>(device.window.count())));
    }
    return shares;
  }
};

TEST_F(MergedKineto, KeepsItsRanks) {
  const auto quoted = [](const std::string& text) { return "\"" + text + "\""; };
  const std::vector<std::pair<std::string, std::string>> forms{
      {"[TP00] ", "[TP01] "}, {"rank0_", "rank1_"}, {"[TP00-PP01] ", "[TP01-PP01] "}, {"0@", "1@"}};
  for (const auto& [first, second] : forms)
    for (unsigned seed : {0U, 1U, 2U}) {
      const std::string path =
          file({rows(quoted(first + "4711"), quoted(first + "0"), 30, 1000), rows(quoted(second + "4712"), quoted(second + "0"), 50, 1000)},
               seed);
      const std::vector<RankRecording> recordings = read_kineto_ranks(path);
      ASSERT_EQ(recordings.size(), 2U) << first;
      EXPECT_EQ(recordings[0].rank, 0);
      EXPECT_EQ(recordings[1].rank, 1);
      EXPECT_EQ(recordings[1].ranks, 2);
      EXPECT_THAT(busy(read_any_trace(path)), ElementsAre(std::pair("0@cuda:0", 30.0), std::pair("1@cuda:0", 50.0))) << first << seed;
    }
}

TEST_F(MergedKineto, TheNumberMayComeFirstOrTheRankStandForIt) {
  EXPECT_THAT(
      busy(read_any_trace(file({rows(R"("4711 rank 2")", R"("0 rank 2")", 30, 0), rows(R"("4711 rank 5")", R"("0 rank 5")", 50, 0)}))),
      ElementsAre(std::pair("2@cuda:0", 30.0), std::pair("5@cuda:0", 50.0)));
  EXPECT_THAT(busy(read_any_trace(file({rows(R"("rank 2")", R"("rank 2")", 30, 0), rows(R"("rank 5")", R"("rank 5")", 50, 0)}))),
              ElementsAre(std::pair("2@cuda:0", 30.0), std::pair("5@cuda:0", 50.0)));
}

TEST_F(MergedKineto, ItsRanksCountFromOneMoment) {
  const Trace trace =
      read_any_trace(file({rows(R"("[TP00] 9")", R"("[TP00] 0")", 30, 1000), rows(R"("[TP01] 9")", R"("[TP01] 0")", 50, 1500)}));
  std::vector<Nanoseconds> first(2, Nanoseconds::max());
  for (const Event& event : trace.events) first[as_index(event.device)] = std::min(first[as_index(event.device)], event.start);
  EXPECT_EQ(first[1] - first[0], std::chrono::microseconds(500));
}

TEST_F(MergedKineto, OneRankIsNoJob) {
  for (const char* process : {"4711", R"("4711")", R"("[TP00] 4711")"}) {
    const std::string gpu = std::string(process) == "4711" ? "0" : process[1] == '4' ? R"("0")" : R"("[TP00] 0")";
    const std::vector<RankRecording> recordings = read_kineto_ranks(file({rows(process, gpu, 30, 0)}));
    ASSERT_EQ(recordings.size(), 1U) << process;
    EXPECT_THAT(recordings[0].trace.devices, ElementsAre(::testing::Field(&TraceDevice::name, "cuda:0")));
  }
}

TEST_F(MergedKineto, ProcessesThatAreNumbersAreAmbiguousOnOneDevice) {
  const Trace trace = read_any_trace(file({rows("4711", "0", 30, 0), rows("104711", "100000", 50, 0)}));
  EXPECT_EQ(trace.devices.size(), 1U);
  EXPECT_EQ(trace.quality.ambiguous, 40);
  EXPECT_EQ(read_any_trace(file({rows("4711", "0", 30, 0), rows("104711", "100000", 50, 5000)})).quality.ambiguous, 0) << "they take turns";
}

TEST(RanksOfLabels, AreTheNumberInWhichTheyDiffer) {
  EXPECT_THAT(ranks_of_labels({"[TP00]", "[TP01]"}), ElementsAre(std::pair("[TP00]", 0), std::pair("[TP01]", 1)));
  EXPECT_THAT(ranks_of_labels({"node1 rank3", "node1 rank4"}), ElementsAre(std::pair("node1 rank3", 3), std::pair("node1 rank4", 4)));
  EXPECT_THAT(ranks_of_labels({"TP0 PP0", "TP1 PP1"}), ElementsAre(std::pair("TP0 PP0", -1), std::pair("TP1 PP1", -1)));
  EXPECT_THAT(ranks_of_labels({"a", "b"}), ElementsAre(std::pair("a", -1), std::pair("b", -1)));
  EXPECT_THAT(ranks_of_labels({"r1", "r01"}), ElementsAre(std::pair("r01", -1), std::pair("r1", -1)));
}

}  // namespace
}  // namespace mptune::profiler
