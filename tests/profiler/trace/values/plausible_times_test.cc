#include "profiler/trace/values/plausible_times.h"

#include <gmock/gmock.h>

#include <random>

namespace mptune::profiler {
namespace {

using Fault = ImplausibleTime::Fault;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

TimedRecord record(std::int64_t start, std::int64_t end, std::int64_t call = 0, int stream = 0) {
  return {.start = Nanoseconds{start}, .end = Nanoseconds{end}, .call = call, .stream = stream};
}

// Twenty records of 80 ns, one every 100 ns from `start` on.
std::vector<TimedRecord> usual(std::int64_t start = 0) {
  std::vector<TimedRecord> records;
  for (int i = 0; i < 20; ++i) records.push_back(record(start + 100 * i, start + 100 * i + 80, 1 + i));
  return records;
}

TimeFaults faults(const std::vector<TimedRecord>& records, TimeInterval others = {}, const std::vector<StepWindow>& steps = {}) {
  return implausible_times(records, steps, Nanoseconds{0}, [&] { return others; });
}

TEST(PlausibleTimes, OfAUsualRecording) {
  EXPECT_THAT(faults(usual()), IsEmpty());
  EXPECT_THAT(faults(usual(1'000'000'000'000'000'000)), IsEmpty());
  EXPECT_THAT(faults({}), IsEmpty());
  EXPECT_THAT(faults({record(0, 1'000'000)}), IsEmpty());
  EXPECT_THAT(faults({record(0, 10), record(1'000'000'000'000'000'000, 1'000'000'000'000'000'010)}), IsEmpty()) << "which one is wrong?";
}

TEST(PlausibleTimes, FarFromTheMedian) {
  const std::int64_t now = 1'000'000'000'000'000'000;
  std::vector<TimedRecord> records = {record(now, now + 5), record(0, 5), record(now + 9, now + 20)};
  EXPECT_THAT(faults(records), ElementsAre(Pair(1U, Fault::far)));
  records = usual(now);
  records[3].start = Nanoseconds{0};
  records[7] = record(2 * now, 2 * now + 5);
  records[19].end = Nanoseconds{2 * now};
  EXPECT_THAT(faults(records), ElementsAre(Pair(3U, Fault::far), Pair(7U, Fault::far), Pair(19U, Fault::far)));
}

TEST(PlausibleTimes, AloneAtOneEnd) {
  std::vector<TimedRecord> records = usual(1'000'000);
  records[0].start = Nanoseconds{5};
  EXPECT_THAT(faults(records), ElementsAre(Pair(0U, Fault::alone)));
  EXPECT_THAT(faults(records, {Nanoseconds{0}, Nanoseconds{1'000'000}}), IsEmpty()) << "the host was at work all the time";
  records = usual();
  records[19].end = Nanoseconds{10'000};
  EXPECT_THAT(faults(records), ElementsAre(Pair(19U, Fault::alone)));
  EXPECT_THAT(faults(records, {Nanoseconds{100}, Nanoseconds{9'000}}), IsEmpty()) << "a synchronisation waited for it";
  records[19] = record(50'000, 50'080);
  records[18] = record(900'000, 900'080);
  EXPECT_THAT(faults(records), ElementsAre(Pair(18U, Fault::alone), Pair(19U, Fault::alone)));
}

TEST(PlausibleTimes, FewRecordsMayLieApart) {
  std::vector<TimedRecord> records = usual();
  records.resize(9);
  records.push_back(record(5'000, 9'000));
  EXPECT_THAT(faults(records), IsEmpty());
}

TEST(PlausibleTimes, AWaitMayLastLong) {
  std::vector<TimedRecord> records = usual();
  records.push_back(record(0, 1'000'000, 0, -1));
  EXPECT_THAT(faults(records), IsEmpty());
}

TEST(PlausibleTimes, TooLongWhileItsStreamRunsOtherWork) {
  std::vector<TimedRecord> records = usual();
  records[2].end = Nanoseconds{1'500};
  EXPECT_THAT(faults(records), ElementsAre(Pair(2U, Fault::too_long)));
  records[2].stream = 1;
  EXPECT_THAT(faults(records), IsEmpty()) << "a stream of its own may be busy all the time";
  records[2].stream = 0;
  for (TimedRecord& one : records) one.call = 5;
  EXPECT_THAT(faults(records), IsEmpty()) << "branches of a graph overlap";
  records = usual();
  records[2].end = Nanoseconds{1'100};
  EXPECT_THAT(faults(records), IsEmpty()) << "not most of the time";
}

// The next kernel may start before its predecessor ends; it does not end before it.
TEST(PlausibleTimes, OverlapOfNeighboursIsUsual) {
  std::vector<TimedRecord> records = {record(0, 1'000, 1), record(990, 1'200, 2), record(1'200, 1'210, 3)};
  EXPECT_THAT(faults(records), IsEmpty());
  records[1].end = Nanoseconds{999};
  EXPECT_THAT(implausible_times(records, {}, Nanoseconds{1}, [] { return TimeInterval{}; }), IsEmpty()) << "rounded";
  EXPECT_THAT(faults(records), ElementsAre(Pair(0U, Fault::too_long)));
}

TEST(PlausibleTimes, StepsAreTheWindows) {
  const std::vector<StepWindow> steps{{0, Nanoseconds{0}, Nanoseconds{900}}, {1, Nanoseconds{1'000}, Nanoseconds{1'980}}};
  std::vector<TimedRecord> records = usual();
  records[10].end = Nanoseconds{1'600};
  EXPECT_THAT(faults(records, {}, steps), ElementsAre(Pair(10U, Fault::too_long)));
  EXPECT_THAT(faults(records), IsEmpty());
}

TEST(PlausibleTimes, OfRandomRecordsEachIsNamedOnceAndWaitsAreNeverTooLong) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<TimedRecord> records;
    const std::size_t count = random() % 40;
    for (std::size_t i = 0; i < count; ++i) {
      const auto start = static_cast<std::int64_t>(random() >> (3 + random() % 55));
      const auto end = start + static_cast<std::int64_t>(random() >> (3 + random() % 55)) % ((std::int64_t{1} << 61) - start + 1);
      records.push_back(
          record(random() % 2 == 0 ? start : -end, end, static_cast<std::int64_t>(random() % 9), static_cast<int>(random() % 3) - 1));
    }
    std::size_t next = 0;
    for (const auto& [index, fault] : faults(records)) {
      EXPECT_GE(index, next);
      EXPECT_LT(index, records.size());
      EXPECT_TRUE(fault == Fault::far || records[index].stream >= 0);
      next = index + 1;
    }
  }
}

}  // namespace
}  // namespace mptune::profiler
