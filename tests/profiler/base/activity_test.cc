#include "profiler/base/activity.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace mptune {
namespace {

using namespace std::chrono_literals;

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Another process that publishes to `board` and does `work`; killed with this object.
class Watched {
 public:
  Watched(const ActivityBoard& board, const std::function<void()>& work) : pid_(::fork()) {
    if (pid_ != 0) return;
    publish_activities(board.descriptor());
    work();
    ::_exit(0);
  }
  ~Watched() {
    ::kill(pid_, SIGKILL);
    if (!waited_) ::waitpid(pid_, nullptr, 0);
  }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;
  void send(int signal) const { ::kill(pid_, signal); }
  int wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    waited_ = true;
    return status;
  }

 private:
  pid_t pid_;
  bool waited_ = false;
};

bool soon(const std::function<bool()>& condition) {
  for (int i = 0; i < 2000 && !condition(); ++i) std::this_thread::sleep_for(5ms);
  return condition();
}

std::string only_text(const ActivityBoard& board) {
  const auto all = board.activities();
  return all.size() == 1 ? all.front().text : std::to_string(all.size()) + " activities";
}

void stay() {
  while (true) std::this_thread::sleep_for(1s);
}

TEST(ActivityBoard, IsEmptyAtFirst) {
  const ActivityBoard board;
  EXPECT_EQ(board.beat_s(), 0);
  EXPECT_EQ(board.last_change_s(), 0);
  EXPECT_TRUE(board.activities().empty());
  EXPECT_EQ(board.ended_in(), "");
}

TEST(ActivityBoard, ShowsWhatAThreadDoesAndSinceWhen) {
  const ActivityBoard board;
  const double before = now_s();
  const Watched other(board, [] {
    const Activity activity("the forward of layer", "conv1", 7);
    stay();
  });
  ASSERT_TRUE(soon([&] { return only_text(board) == "the forward of layer 'conv1'"; })) << only_text(board);
  const ThreadActivity activity = board.activities().front();
  EXPECT_GE(activity.since_s, before);
  EXPECT_LE(activity.since_s, now_s());
  EXPECT_EQ(activity.longest_s, 0);
  EXPECT_EQ(activity.patience_s, 7);
  EXPECT_GE(board.last_change_s(), activity.since_s);
  const double first = board.beat_s();
  EXPECT_TRUE(soon([&] { return board.beat_s() > first; })) << "it goes on beating";
}

TEST(ActivityBoard, RemembersHowLongTheSameTookBefore) {
  const ActivityBoard board;
  const Watched other(board, [] {
    for (const auto time : {60ms, 5ms}) {
      const Activity activity("layer", "a");
      std::this_thread::sleep_for(time);
    }
    const Activity other_layer("layer", "b");
    const Activity again("layer", "a");
    stay();
  });
  ASSERT_TRUE(soon([&] { return only_text(board) == "layer 'a'" && board.activities().front().longest_s > 0; }));
  const bool longest = soon([&] { return board.activities().front().longest_s >= 0.06; });
  EXPECT_TRUE(longest);
}

TEST(ActivityBoard, AnInnerActivityEndsInTheOuterOne) {
  const ActivityBoard board;
  const Watched other(board, [] {
    const Activity outer("loading", "net");
    { const Activity inner("layer", "a"); }
    stay();
  });
  EXPECT_TRUE(soon([&] { return only_text(board) == "loading 'net'"; })) << only_text(board);
}

TEST(ActivityBoard, ThreadsThatEndLeaveTheirPlacesToOthers) {
  const ActivityBoard board;
  const Watched other(board, [] {
    for (int i = 0; i < 1000; ++i) std::thread([] { const Activity activity("short"); }).join();
    std::thread([] {
      const Activity activity("last");
      stay();
    }).join();
  });
  EXPECT_TRUE(soon([&] { return only_text(board) == "last"; })) << only_text(board);
}

TEST(ActivityBoard, MoreThreadsThanPlacesDoNoHarm) {
  const ActivityBoard board;
  Watched other(board, [] {
    std::vector<std::thread> threads;
    for (int i = 0; i < 300; ++i)
      threads.emplace_back([] {
        const Activity activity("one of many");
        std::this_thread::sleep_for(100ms);
      });
    for (std::thread& thread : threads) thread.join();
  });
  EXPECT_EQ(other.wait(), 0);
}

TEST(ActivityBoard, LongTextsAreCut) {
  const ActivityBoard board;
  const Watched other(board, [] {
    const Activity activity("layer", std::string(1000, 'x'));
    stay();
  });
  ASSERT_TRUE(soon([&] { return board.activities().size() == 1; }));
  EXPECT_EQ(only_text(board), "layer '" + std::string(152, 'x'));
}

TEST(ActivityBoard, NamesTheThreadThatEndedTheProcess) {
  const std::vector<std::function<void()>> ends{[] { std::raise(SIGSEGV); }, [] { std::abort(); }, [] { std::exit(5); },
                                                [] { throw std::runtime_error("nobody catches this"); }};
  for (const auto& end : ends) {
    const ActivityBoard board;
    Watched other(board, [&] {
      const Activity activity("waiting for", "bad");
      std::thread([&] {
        const Activity inner("layer", "bad");
        end();
      }).join();
    });
    const int status = other.wait();
    EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 5);
    EXPECT_EQ(board.ended_in(), "layer 'bad'");
    EXPECT_FALSE(board.ended_by_another());
  }
}

TEST(ActivityBoard, ASignalOfAnotherProcessIsNoMistakeOfTheThreadThatGetsIt) {
  const ActivityBoard board;
  Watched other(board, [] {
    const Activity activity("layer", "a");
    stay();
  });
  ASSERT_TRUE(soon([&] { return board.activities().size() == 1; }));
  other.send(SIGSEGV);
  EXPECT_EQ(WTERMSIG(other.wait()), SIGSEGV);
  EXPECT_TRUE(board.ended_by_another());
  EXPECT_EQ(board.ended_in(), "");
  EXPECT_EQ(only_text(board), "layer 'a'");
}

TEST(ActivityBoard, AnExceptionNamesTheInnermostActivityThatItLeft) {
  const ActivityBoard board;
  Watched other(board, [] {
    const auto attempt = [](const char* name) {
      try {
        const Activity outer("loading", name);
        const Activity inner("layer", name);
        throw std::runtime_error("no");
      } catch (const std::exception&) {
        const Activity after("cleaning", name);
      }
      return activity_left_by_exception();
    };
    const bool named = attempt("a") == "layer 'a'" && attempt("b") == "layer 'b'";
    ::_exit(named ? 7 : 8);
  });
  EXPECT_EQ(WEXITSTATUS(other.wait()), 7);
}

TEST(ActivityBoard, AKilledProcessLeavesWhatItDid) {
  const ActivityBoard board;
  {
    const Watched other(board, [] {
      const Activity activity("layer", "a");
      stay();
    });
    ASSERT_TRUE(soon([&] { return board.activities().size() == 1; }));
  }
  EXPECT_EQ(only_text(board), "layer 'a'");
  EXPECT_EQ(board.ended_in(), "") << "it did not end itself";
}

TEST(ActivityBoard, StaysEmptyWhereALimitForbidsSharedMemory) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{1, 1};
    ::signal(SIGXFSZ, SIG_IGN);
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const ActivityBoard board;
    publish_activities(board.descriptor());
    const Activity activity("layer", "a");
    ::_exit(board.descriptor() == -1 && board.activities().empty() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(Activity, CostsNothingWhereNobodyWatches) {
  const Activity outer("layer", "a");
  const Activity inner("layer", "b");
}

TEST(PublishActivities, OfNoBoardHasNoEffect) {
  publish_activities(-1);
  const Activity activity("layer", "a");
}

}  // namespace
}  // namespace mptune
