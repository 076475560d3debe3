#include <gmock/gmock.h>

#include <cmath>
#include <random>

#include "profiler/base/error.h"
#include "reports/render/compare_words.h"
#include "tests/reports/compared_samples.h"

namespace mptune::reports {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A machine whose speed differs from recording to recording, on two devices of which the second waits.
class DriftingMachine {
 public:
  DriftingMachine(double between, double within, unsigned seed) : between_(0, between), within_(0, within), random_(seed) {}

  /// A recording of 20 steps of `step_ms` on average.
  TraceReport record(double step_ms) {
    const double recording = step_ms * std::exp(between_(random_));
    std::vector<std::vector<StepTimes>> steps;
    for (int step = 0; step < 20; ++step) {
      const double whole = recording * std::exp(within_(random_));
      steps.push_back({{.compute = 0.9 * whole, .copy = 0.1 * whole, .straggler = 0, .jitter = 0},
                       {.compute = 0.6 * whole, .copy = 0.1 * whole, .straggler = 0.3 * whole, .jitter = 0}});
    }
    return recorded({"cpu:0", "cpu:1"}, steps);
  }

  /// Recordings in the order A B B A A B B A ..., each of the two sides `count` times; B takes `ratio` times as long as A, and each
  /// recording `trend` longer than the one before.
  Comparison compare(int count, double ratio, double trend, double band = kSameBand) {
    std::vector<TraceReport> a, b;
    for (int place = 0; place < 2 * count; ++place) {
      const bool is_b = place % 4 == 1 || place % 4 == 2;
      (is_b ? b : a).push_back(record((is_b ? ratio : 1) * (100 + 100 * trend * place)));
    }
    return compare_traces(side(a), side(b), band);
  }

 private:
  std::normal_distribution<double> between_;
  std::normal_distribution<double> within_;
  std::mt19937 random_;
};

/// How often 1,000 comparisons of the same program find B slower.
int false_alarms(int count, double between, double trend) {
  DriftingMachine machine(between, 0.01, 31);
  int alarms = 0;
  for (int repeat = 0; repeat < 1000; ++repeat) alarms += machine.compare(count, 1, trend).verdict == Verdict::slow;
  return alarms;
}

TEST(CompareRecordings, FindsTheSameProgramSlowerInAtMost5PercentOfComparisons) {
  for (const int count : {2, 3, 4}) {
    for (const double between : {0.005, 0.03, 0.1}) EXPECT_LE(false_alarms(count, between, 0), 50) << count << " recordings, " << between;
    EXPECT_LE(false_alarms(count, 0.02, 0.005), 50) << count << " recordings of a machine that gets slower";
  }
}

TEST(CompareRecordings, OneRecordingASideHasMoreFalseAlarmsAndSaysWhy) {
  EXPECT_GT(false_alarms(1, 0.03, 0), 50);
  DriftingMachine machine(0.03, 0.01, 5);
  const Comparison comparison = machine.compare(1, 1, 0);
  EXPECT_FALSE(comparison.drift_covered);
  EXPECT_THAT(warnings_of(comparison), ElementsAre(HasSubstr("what drifts between the two is not in the interval")));
  EXPECT_THAT(warnings_of(machine.compare(2, 1, 0)), ElementsAre());
}

TEST(CompareRecordings, FindsAProgramThatIsSlower) {
  DriftingMachine machine(0.01, 0.01, 32);
  int found = 0, covered = 0;
  std::vector<std::string> causes;
  for (int repeat = 0; repeat < 200; ++repeat) {
    const Comparison comparison = machine.compare(4, 1.1, 0);
    found += comparison.verdict == Verdict::slow;
    covered += comparison.ratio_ci95->low <= 1.1 && 1.1 <= comparison.ratio_ci95->high;
    if (comparison.cause) causes.push_back(comparison.cause->device + " " + comparison.cause->part.part);
  }
  EXPECT_GE(found, 195);
  EXPECT_GE(covered, 180);
  EXPECT_EQ(std::ranges::count(causes, "cpu:0 compute"), std::ssize(causes));
}

TEST(CompareRecordings, TheThresholdIsWhatBMayBeSlowerBy) {
  DriftingMachine machine(0.001, 0.001, 33);
  EXPECT_EQ(machine.compare(4, 1.05, 0).verdict, Verdict::slow);
  EXPECT_EQ(machine.compare(4, 1.05, 0, 0.04).verdict, Verdict::slow);
  EXPECT_EQ(machine.compare(4, 1.05, 0, 0.06).verdict, Verdict::same);
  EXPECT_EQ(machine.compare(4, 1.01, 0, 0).verdict, Verdict::slow);
  EXPECT_EQ(machine.compare(4, 0.95, 0, 0.04).verdict, Verdict::fast);
}

TEST(CompareRecordings, PartsAddUpOnEachDeviceAndOverAll) {
  DriftingMachine machine(0.02, 0.02, 34);
  const Comparison comparison = machine.compare(3, 1.2, 0);
  ASSERT_EQ(comparison.devices.size(), 2U);
  ASSERT_TRUE(comparison.all_devices);
  for (std::size_t i = 0; i < comparison.all_devices->parts.size(); ++i) {
    const PartChange& sum = comparison.all_devices->parts[i];
    EXPECT_NEAR(sum.a_s, comparison.devices[0].parts[i].a_s + comparison.devices[1].parts[i].a_s, 1e-9) << sum.part;
    EXPECT_NEAR(sum.b_s, comparison.devices[0].parts[i].b_s + comparison.devices[1].parts[i].b_s, 1e-9) << sum.part;
    EXPECT_TRUE(sum.ci95_s);
  }
  for (const DeviceChange* device : {&comparison.devices[0], &comparison.devices[1], &*comparison.all_devices}) {
    double parts = 0;
    for (const PartChange& part : device->parts) parts += part.part == "window" ? 0 : part.difference_s();
    EXPECT_NEAR(parts, part_of(device->parts, "window").difference_s(), 1e-9);
  }
}

TEST(CompareRecordings, OneBesideSeveralStillHasAnInterval) {
  DriftingMachine machine(0.001, 0.001, 35);
  const Comparison comparison = compare_traces(side({machine.record(100)}), side({machine.record(150), machine.record(150)}));
  EXPECT_EQ(comparison.verdict, Verdict::slow);
  EXPECT_TRUE(comparison.drift_covered);
  EXPECT_NEAR(*comparison.ratio, 1.5, 0.02);
}

std::string refusal(const std::vector<ComparedTrace>& a, const std::vector<ComparedTrace>& b) {
  try {
    (void)compare_traces(a, b);
  } catch (const Error& error) {
    return error.problem() + ": " + error.where();
  }
  return "";
}

TEST(CompareRecordings, OfOneSideAreOfOneProgram) {
  DriftingMachine machine(0.01, 0.01, 36);
  const std::vector<ComparedTrace> other = side({machine.record(100)});
  std::vector<ComparedTrace> two = side({machine.record(100), machine.record(100)});
  two[0].name = "one";
  two[1].name = "two";
  EXPECT_EQ(refusal(two, other), "");
  std::vector<ComparedTrace> devices = two;
  devices[1].report.devices[0].device = "cuda:0";
  EXPECT_EQ(refusal(devices, other), "recordings of one side differ: devices: one and two");
  std::vector<ComparedTrace> batches = two;
  batches[0].work.batch = 8;
  batches[1].work.batch = 16;
  EXPECT_EQ(refusal(other, batches), "recordings of one side differ: batch: one and two");
  std::vector<ComparedTrace> clocks = two;
  clocks[0].work.machine.clock_mhz = 2000;
  clocks[1].work.machine.clock_mhz = 3000;
  EXPECT_EQ(refusal(other, clocks), "") << "a clock that varies does not end a comparison";
  std::vector<ComparedTrace> twice = two;
  twice[1].report = twice[0].report;
  EXPECT_EQ(refusal(twice, other), "two recordings of one side are the same: one and two") << "they would make the interval too short";
}

TEST(CompareRecordings, OneThatLostTooMuchForbidsAVerdict) {
  DriftingMachine machine(0.001, 0.001, 37);
  std::vector<ComparedTrace> b = side({machine.record(150), machine.record(150)});
  b[1].report.objection = profiler::QualityObjection{profiler::QualityObjection::Loss::dropped, 0.5};
  const Comparison comparison = compare_traces(side({machine.record(100), machine.record(100)}), b);
  EXPECT_EQ(comparison.verdict, Verdict::unknown);
  EXPECT_THAT(comparison.reason, HasSubstr("B: "));
  EXPECT_FALSE(comparison.cause);
}

TEST(CompareRecordings, WorkOfTwoSizesIsComparedBySamplesPerSecond) {
  DriftingMachine machine(0.001, 0.001, 38);
  std::vector<ComparedTrace> a = side({machine.record(100)}), b = side({machine.record(150)});
  a[0].work.batch = 32;
  b[0].work.batch = 64;
  const Comparison comparison = compare_traces(a, b);
  EXPECT_EQ(comparison.verdict, Verdict::unknown);
  EXPECT_EQ(comparison.reason, "steps of 32 and of 64 samples are different work");
  EXPECT_NEAR(*samples_per_second(comparison.a), 320, 2);
  EXPECT_NEAR(*samples_per_second(comparison.b), 427, 3);
  EXPECT_THAT(warnings_of(comparison), ::testing::Contains(HasSubstr("the batches differ: B makes 1.33")));
}

TEST(CompareRecordings, SaysThatModelsAndMachinesAreNotAlike) {
  DriftingMachine machine(0.001, 0.001, 39);
  std::vector<ComparedTrace> a = side({machine.record(100)}), b = side({machine.record(150)});
  a[0].work = {.model = "resnet50",
               .fingerprint = {.model = "sha256:1", .input = "3x64x64", .devices = {}, .libtorch = "2.8", .cuda = "13.0"},
               .batch = 8,
               .devices = {{.name = "cuda:0", .description = "A100"}},
               .machine = {.cpu = "EPYC", .cores = 64, .clock_mhz = 2000}};
  b[0].work = a[0].work;
  EXPECT_TRUE(compare_traces(a, b).unlike.empty());
  b[0].work.fingerprint = {.model = "sha256:2", .input = "3x64x64", .devices = {}, .libtorch = "2.9", .cuda = ""};
  b[0].work.devices[0].description = "H100";
  b[0].work.machine = {.cpu = "Xeon", .cores = 8, .clock_mhz = 3000};
  const Comparison comparison = compare_traces(a, b);
  std::vector<std::string> texts;
  for (const Unlike& thing : comparison.unlike) texts.push_back(text_of(thing));
  EXPECT_THAT(texts,
              ElementsAre("model: of the same name, but not the same", "device: cuda:0 (A100) -> cuda:0 (H100)", "LibTorch: 2.8 -> 2.9",
                          "CUDA: 13.0 -> none", "CPU: EPYC -> Xeon", "cores: 64 -> 8", "highest clock of a core: 2000 MHz -> 3000 MHz"));
  EXPECT_EQ(comparison.verdict, Verdict::slow) << "a change of the model is what is compared";
  EXPECT_THAT(warnings_of(comparison), ::testing::Contains(HasSubstr("across machines")));
  b[0].work.model = "resnet18";
  EXPECT_EQ(compare_traces(a, b).reason, "steps of resnet50 and of resnet18 are different work");
  b[0].work = {.model = {}, .fingerprint = {}, .batch = 0, .devices = {}, .machine = {}};
  EXPECT_TRUE(compare_traces(a, b).unlike.empty()) << "what is not known of both is not compared";
}

}  // namespace
}  // namespace mptune::reports
