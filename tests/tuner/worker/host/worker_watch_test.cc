#include "tuner/worker/host/worker_watch.h"

#include <gtest/gtest.h>

#include <utility>

namespace mptune::tuner {
namespace {

constexpr double kNow = 1000;

WorkerSigns healthy() {
  return {.now_s = kNow, .last_reply_s = kNow - 1, .beat_s = kNow - 0.4, .last_change_s = kNow - 1};
}
WorkerSigns doing(double seconds, double longest_s, double patience_s = 60) {
  WorkerSigns signs = healthy();
  signs.activities = {{"the forward of layer 'a'", kNow - seconds, longest_s, patience_s}};
  return signs;
}
Silence silence_of(const WorkerSigns& signs, const WaitLimits& limits = {}) {
  return judge_silence(signs, limits).silence;
}

TEST(WorkerWatch, AHealthyWorkerIsLeftAlone) {
  EXPECT_EQ(silence_of(healthy()), Silence::none);
  EXPECT_EQ(silence_of(doing(9, 0)), Silence::none);
}

TEST(WorkerWatch, ANewActivityIsToldThenEnded) {
  EXPECT_EQ(silence_of(doing(11, 0)), Silence::long_activity);
  EXPECT_EQ(silence_of(doing(59, 0)), Silence::long_activity);
  EXPECT_EQ(silence_of(doing(61, 0)), Silence::endless_activity);
  EXPECT_EQ(silence_of(doing(61, 0, 300)), Silence::long_activity) << "its own patience";
  EXPECT_EQ(judge_silence(doing(11, 0), {}).doing, "the forward of layer 'a'");
  EXPECT_EQ(judge_silence(doing(11, 0), {}).limit_s, 60);
}

TEST(WorkerWatch, AnActivityIsJudgedByWhatItTookBefore) {
  EXPECT_EQ(silence_of(doing(9, 0.1)), Silence::none);
  EXPECT_EQ(silence_of(doing(11, 0.1)), Silence::endless_activity) << "a layer that was fast hangs";
  EXPECT_EQ(silence_of(doing(50, 20)), Silence::none) << "a layer that is known to be slow";
  EXPECT_EQ(silence_of(doing(70, 20)), Silence::long_activity);
  EXPECT_EQ(silence_of(doing(201, 20)), Silence::endless_activity);
}

TEST(WorkerWatch, AWorkerThatWaitsForOthersDoesNothing) {
  WorkerSigns signs = doing(70, 1, kWaitsForOthers);
  signs.last_reply_s = signs.last_change_s = kNow - 70;
  EXPECT_EQ(silence_of(signs), Silence::none) << "the one that it waits for is watched";
  signs.last_reply_s = signs.last_change_s = kNow - 121;
  EXPECT_EQ(silence_of(signs), Silence::quiet);
  signs.activities.push_back({"the forward of layer 'a'", kNow - 61, 0, 60});
  EXPECT_EQ(silence_of(signs), Silence::endless_activity);
}

TEST(WorkerWatch, ADeadWorkerIsToldApart) {
  WorkerSigns signs = healthy();
  signs.beat_s = kNow - 10.1;
  EXPECT_EQ(silence_of(signs), Silence::lifeless);
  signs.stopped = true;
  EXPECT_EQ(silence_of(signs), Silence::stopped);
  signs.stopped = false;
  signs.debugged = true;
  EXPECT_EQ(silence_of(signs), Silence::none);
}

TEST(WorkerWatch, TimeInWhichThisProcessWasStoppedDoesNotCount) {
  WorkerSigns signs = doing(500, 1);
  signs.beat_s = kNow - 500;
  signs.watched_since_s = kNow - 1;
  EXPECT_EQ(silence_of(signs), Silence::none);
}

TEST(WorkerWatch, ThreadsThatWaitForEachOtherAreQuiet) {
  WorkerSigns signs = healthy();
  signs.last_reply_s = signs.last_change_s = kNow - 121;
  EXPECT_EQ(silence_of(signs), Silence::quiet);
  signs.last_change_s = kNow - 1;
  EXPECT_EQ(silence_of(signs), Silence::none);
  signs = doing(40, 0);
  signs.last_reply_s = kNow - 500;
  EXPECT_EQ(silence_of(signs), Silence::long_activity) << "it works";
}

TEST(WorkerWatch, AWorkerThatNeverBeatIsJudgedByItsReplies) {
  WorkerSigns signs;
  signs.now_s = kNow;
  signs.last_reply_s = kNow - 100;
  EXPECT_EQ(silence_of(signs), Silence::none);
  EXPECT_EQ(silence_of(signs, {.quiet_s = 99}), Silence::quiet);
}

TEST(WorkerWatch, AtTheEndOfTheTimeASlowWorkerIsNotStuck) {
  const WaitLimits over{.ends_s = kNow}, later{.ends_s = kNow + 1};
  EXPECT_EQ(silence_of(healthy(), later), Silence::none);
  EXPECT_EQ(silence_of(healthy(), over), Silence::out_of_time) << "whatever it does";
  for (const auto& [seconds, before_s] : {std::pair{5.0, 0.0}, {5.0, 5.0}, {9.9, 0.1}, {59.0, 0.0}}) {
    const SilenceVerdict verdict = judge_silence(doing(seconds, before_s), over);
    EXPECT_EQ(verdict.silence, Silence::out_of_time) << "a layer that takes " << seconds << " s is slow";
    EXPECT_EQ(verdict.doing, "the forward of layer 'a'");
    EXPECT_EQ(verdict.seconds, 1) << "since the last reply";
  }
  EXPECT_EQ(silence_of(doing(61, 0), over), Silence::endless_activity);
  EXPECT_EQ(silence_of(doing(10.1, 0.1), over), Silence::endless_activity);
}

TEST(WorkerWatch, AtTheEndOfTheTimeADeadWorkerIsStillToldApart) {
  const WaitLimits over{.ends_s = kNow - 1};
  WorkerSigns signs = healthy();
  signs.beat_s = kNow - 10.1;
  EXPECT_EQ(silence_of(signs, over), Silence::lifeless);
  signs.stopped = true;
  EXPECT_EQ(silence_of(signs, over), Silence::stopped);
  signs = doing(70, 1, kWaitsForOthers);
  EXPECT_EQ(judge_silence(signs, over).doing, "") << "it waits for another process";
  EXPECT_TRUE(ends_worker(Silence::out_of_time));
  EXPECT_FALSE(ends_worker(Silence::long_activity));
}

TEST(WorkerWatch, StuckIsTenTimesWhatWasExpectedAndAtLeastTenSeconds) {
  EXPECT_FALSE(is_stuck(9.9, 0));
  EXPECT_TRUE(is_stuck(10.1, 0)) << "nothing is known of it";
  EXPECT_FALSE(is_stuck(9.9, 0.01));
  EXPECT_TRUE(is_stuck(10.1, 0.01));
  EXPECT_FALSE(is_stuck(49, 5)) << "a step of 5 s on a machine that others load";
  EXPECT_TRUE(is_stuck(51, 5));
}

}  // namespace
}  // namespace mptune::tuner
