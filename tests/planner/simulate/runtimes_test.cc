#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <set>

#include "planner/plan/executable.h"
#include "planner/schedule/messages.h"
#include "planner/schedule/schedule.h"
#include "planner/schedule/schedule_info.h"
#include "planner/simulate/schedule_costs.h"
#include "planner/simulate/simulate.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "tests/planner/profiles.h"
#include "tests/planner/random_plans.h"
#include "tests/support/error_of.h"

namespace mptune::planner {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::make_profile;
using testing::ones;
using testing::scheduled;
using testing::stages_of;

/// What a rank of another project's engine does, in the order of its loop.
struct Command {
  enum class Kind { forward, backward, exchange, send } kind;  ///< `exchange` waits for its messages, `send` for the send before it
  int microbatch = 0;
  std::vector<std::tuple<int, int, int>> messages = {};  ///< direction (0: outputs, 1: gradients), the earlier of two stages, micro-batch
};

class Commands {
 public:
  Commands(int stage, int stages) : stage_(stage), stages_(stages) {}
  void forward(int i) { list.push_back({Command::Kind::forward, i}); }
  void backward(int i) { list.push_back({Command::Kind::backward, i}); }
  void receive_input(int i) { receives(0, stage_ - 1, i); }
  void send_output(int i) { receives(0, stage_, i); }
  void receive_gradient(int i) { receives(1, stage_, i); }
  void send_gradient(int i) { receives(1, stage_ - 1, i); }
  void exchange() { flush(Command::Kind::exchange); }
  void send() { flush(Command::Kind::send); }
  void wait_for_sends() { list.push_back({Command::Kind::send}); }
  std::vector<Command> list;

 private:
  void receives(int direction, int link, int i) {
    if (link >= 0 && link + 1 < stages_) open_.push_back({direction, link, i});
  }
  void flush(Command::Kind kind) {
    if (!open_.empty()) list.push_back({kind, 0, std::exchange(open_, {})});
  }
  int stage_, stages_;
  std::vector<std::tuple<int, int, int>> open_;
};

/// DeepSpeed, TrainSchedule: steps that alternate between forward and backward by the parity of step and stage.
std::vector<Command> deepspeed(int stage, int stages, int m) {
  Commands commands(stage, stages);
  const auto valid = [&](int i) { return i >= 0 && i < m; };
  int before = -1;
  for (int step = 0; step < 2 * (m + stages - 1); ++step) {
    const bool forward = step % 2 == stage % 2;
    int i = 0;
    if (forward)
      i = (step % 2 == 0 ? step / 2 : (step - 1) / 2) - stage / 2;
    else
      i = step % 2 == 0 ? step / 2 - stages + (stage + 1) / 2 : (step - 1) / 2 - stages + 1 + stage / 2;
    if (forward) {
      if (valid(before)) commands.send_gradient(before), commands.exchange();
      if (valid(i)) commands.receive_input(i), commands.exchange(), commands.forward(i);
    } else {
      if (valid(i)) commands.receive_gradient(i), commands.exchange();
      if (valid(before)) commands.send_output(before), commands.exchange();
      if (valid(i)) commands.backward(i);
    }
    before = i;
  }
  return commands.list;
}

/// Megatron-LM, forward_backward_pipelining_without_interleaving.
std::vector<Command> megatron(int stage, int stages, int m) {
  Commands commands(stage, stages);
  const int warm_up = std::min(stages - stage - 1, m);
  for (int i = 0; i < warm_up; ++i) {
    commands.receive_input(i), commands.exchange();
    commands.forward(i);
    commands.send_output(i), commands.exchange();
  }
  const int steady = m - warm_up;
  if (steady > 0) commands.receive_input(warm_up), commands.exchange();
  for (int i = 0; i < steady; ++i) {
    commands.forward(warm_up + i);
    commands.send_output(warm_up + i), commands.receive_gradient(i), commands.exchange();
    commands.backward(i);
    commands.send_gradient(i);
    if (i + 1 < steady) commands.receive_input(warm_up + i + 1);
    commands.exchange();
  }
  for (int i = steady; i < m; ++i) {
    commands.receive_gradient(i), commands.exchange();
    commands.backward(i);
    commands.send_gradient(i), commands.exchange();
  }
  return commands.list;
}

/// torch.distributed.pipelining, Schedule1F1B.
std::vector<Command> torch_1f1b(int stage, int stages, int m) {
  Commands commands(stage, stages);
  const int warm_up = std::min(m, stages - stage);
  for (int i = 0; i < warm_up; ++i) {
    commands.receive_input(i), commands.exchange();
    commands.forward(i);
    commands.wait_for_sends();
    if (i + 1 < warm_up) commands.send_output(i), commands.send();
  }
  int forward = warm_up, backward = 0;
  while (true) {
    commands.send_output(forward - 1), commands.receive_gradient(backward), commands.exchange();
    commands.backward(backward++);
    if (forward == m) break;
    commands.send_gradient(backward - 1), commands.receive_input(forward), commands.exchange();
    commands.forward(forward++);
  }
  commands.send_gradient(backward - 1), commands.send();
  for (; backward < m; ++backward) {
    commands.receive_gradient(backward), commands.exchange();
    commands.backward(backward);
    commands.wait_for_sends();
    commands.send_gradient(backward), commands.send();
  }
  return commands.list;
}

/// Slow truth: each rank by its own clock. A message takes `copy_s` from when both ends have come to it; with a `queue` per rank also not
/// before the messages that either end posted just before it have arrived.
class Ranks {
 public:
  Ranks(const std::vector<std::vector<Command>>& commands, const std::vector<double>& forward_s, const std::vector<double>& backward_s,
        double copy_s, bool queue)
      : commands_(commands), copy_s_(copy_s), queue_(queue), next_(commands.size(), 0), clock_(commands.size(), 0), last_(commands.size()) {
    std::vector<std::vector<Message>> sent(commands.size());
    for (bool progress = true; progress;) {
      progress = false;
      for (std::size_t r = 0; r < commands.size(); ++r) {
        for (; next_[r] < commands[r].size(); ++next_[r], progress = true) {
          const Command& command = commands[r][next_[r]];
          if (command.kind == Command::Kind::forward) clock_[r] += forward_s[r];
          if (command.kind == Command::Kind::backward) clock_[r] += backward_s[r];
          if (command.kind == Command::Kind::send) {
            if (!wait(r, sent[r])) break;
            sent[r] = command.messages;
            post(r, command.messages);
          }
          if (command.kind == Command::Kind::exchange) {
            if (came_.insert({r, next_[r]}).second) post(r, command.messages), progress = true;
            if (!wait(r, command.messages)) break;
          }
        }
      }
    }
    for (std::size_t r = 0; r < commands.size(); ++r) EXPECT_TRUE(next_[r] == commands[r].size() && wait(r, sent[r])) << r << " is stuck";
  }
  [[nodiscard]] double end_s() const { return std::ranges::max(clock_); }

 private:
  using Message = std::tuple<int, int, int>;
  struct Post {
    double at_s;
    std::vector<Message> before;
  };

  void post(std::size_t r, const std::vector<Message>& messages) {
    for (const Message& message : messages) posts_[message].push_back({clock_[r], last_[r]});
    if (queue_ && !messages.empty()) last_[r] = messages;
  }
  /// Returns when a message has arrived, -1: not yet known.
  double arrival(const Message& message) {
    if (const auto known = known_.find(message); known != known_.end()) return known->second;
    if (posts_[message].size() < 2) return -1;
    double start = 0;
    for (const Post& post : std::vector<Post>(posts_[message])) {
      start = std::max(start, post.at_s);
      for (const Message& earlier : post.before) {
        const double at_s = arrival(earlier);
        if (at_s < 0) return -1;
        start = std::max(start, at_s);
      }
    }
    return known_[message] = start + copy_s_;
  }
  bool wait(std::size_t r, const std::vector<Message>& messages) {
    double end = clock_[r];
    for (const Message& message : messages) {
      const double at_s = arrival(message);
      if (at_s < 0) return false;
      end = std::max(end, at_s);
    }
    clock_[r] = end;
    return true;
  }

  const std::vector<std::vector<Command>>& commands_;
  double copy_s_;
  bool queue_;
  std::vector<std::size_t> next_;
  std::vector<double> clock_;
  std::vector<std::vector<Message>> last_;
  std::map<Message, std::vector<Post>> posts_;
  std::map<Message, double> known_;
  std::set<std::pair<std::size_t, std::size_t>> came_;  // exchanges whose rank has posted them
};

double predicted(const Plan& plan, Profile profile, Runtime runtime) {
  profile.runtime = runtime;
  return predict(plan, CostModel(profile, plan)).step_s;
}

/// The same plan and profile with devices of the CPU, between which torch sends by Gloo.
std::pair<Plan, Profile> with_cpus(Plan plan, Profile profile) {
  for (std::size_t d = 0; d < plan.devices.size(); ++d) plan.devices[d] = profile.devices[d].name = "cpu:" + std::to_string(d);
  return {std::move(plan), std::move(profile)};
}

// The prediction against loops written after each project's own.
TEST(Runtimes, TakeAsLongAsTheLoopsOfTheProjects) {
  std::mt19937 random(1);
  const auto draw = [&](double low, double high) { return std::uniform_real_distribution<double>(low, high)(random); };
  int slower = 0;
  for (int round = 0; round < 300; ++round) {
    const int stages = 2 + round % 5;
    const int m = stages + static_cast<int>(random() % 8);
    std::vector<double> factors;
    for (int s = 0; s < stages; ++s) factors.push_back(draw(0.5, 2));
    const double copy_s = draw(0, 0.002);
    const Profile profile = make_profile({.layers = stages, .devices = stages, .latency_s = copy_s}, factors);
    const Plan plan = scheduled(stages_of(stages, std::vector<int>(as_index(stages), 1), ones(m)), "1f1b");
    std::vector<double> forward_s, backward_s;
    for (const double factor : factors) forward_s.push_back(0.001 * factor), backward_s.push_back(0.002 * factor);
    const auto truth = [&](const auto& loop, bool queue) {
      std::vector<std::vector<Command>> ranks;
      for (int s = 0; s < stages; ++s) ranks.push_back(loop(s, stages, m));
      return Ranks(ranks, forward_s, backward_s, copy_s, queue).end_s();
    };
    const double own_s = predicted(plan, profile, Runtime::mptune);
    const double deepspeed_s = predicted(plan, profile, Runtime::deepspeed);
    EXPECT_NEAR(deepspeed_s, truth(deepspeed, false), 1e-7) << stages << " stages, " << m;
    EXPECT_NEAR(predicted(plan, profile, Runtime::megatron), truth(megatron, false), 1e-7) << stages << " stages, " << m;
    EXPECT_NEAR(predicted(plan, profile, Runtime::torch), truth(torch_1f1b, true), 1e-7) << stages << " stages, " << m;
    const auto [on_cpu, cpus] = with_cpus(plan, profile);
    EXPECT_NEAR(predicted(on_cpu, cpus, Runtime::torch), truth(torch_1f1b, false), 1e-7) << stages << " stages, " << m << ", Gloo";
    slower += deepspeed_s > 1.02 * own_s ? 1 : 0;
  }
  EXPECT_GT(slower, 100) << "waiting for sends costs time";
}

// Every schedule that a runtime has ends, and takes no less than under our own rules, which wait for less.
TEST(Runtimes, RunEveryScheduleTheyHave) {
  for (const Runtime runtime : {Runtime::torch, Runtime::megatron, Runtime::deepspeed}) {
    std::set<std::string> ran;
    for (const ScheduleInfo& schedule : schedules()) {
      for (int devices = 2; devices <= 8; ++devices) {
        for (const int m : {1, 2, devices, devices + 3, 4 * devices}) {
          const int each = schedule.least_virtual_stages;
          if (schedule.one_microbatch && m > 1) continue;
          Plan plan = stages_of(devices * each, std::vector<int>(as_index(devices * each), 1), ones(m));
          const std::vector<int> map = stage_devices(schedule.name, devices, each);
          for (std::size_t s = 0; s < map.size(); ++s) plan.stages[s].devices = {map[s]};
          plan.devices.resize(as_index(devices));
          if (!missing_for(schedule, Layout(plan)).empty()) continue;
          const Profile profile = make_profile({.layers = devices * each, .devices = devices, .latency_s = 0.0007});
          schedule_plan(plan, schedule.name, CostModel(profile));
          if (!executable(plan, capabilities_of(runtime))) continue;
          ran.insert(schedule.name);
          for (const bool gloo : {false, true}) {
            const auto [on, named] = gloo ? with_cpus(plan, profile) : std::pair(plan, profile);
            const double own_s = predicted(on, named, Runtime::mptune);
            EXPECT_GE(predicted(on, named, runtime), own_s - 1e-9)
                << name_of(runtime) << " " << schedule.name << " " << devices << " " << m;
            EXPECT_LE(predicted(on, named, runtime), 4 * own_s) << name_of(runtime) << " " << schedule.name << " " << devices << " " << m;
          }
        }
      }
    }
    const std::set<std::string> some = runtime == Runtime::torch
                                           ? std::set<std::string>{"gpipe", "1f1b", "interleaved", "zbv", "dualpipe-v", "zb1p"}
                                       : runtime == Runtime::megatron ? std::set<std::string>{"1f1b", "interleaved"}
                                                                      : std::set<std::string>{"1f1b"};
    EXPECT_TRUE(std::ranges::includes(ran, some)) << name_of(runtime);
  }
}

// Where copies take no time, waiting for them costs none in 1F1B of equal stages.
TEST(Runtimes, AreAlikeWhereCopiesTakeNoTime) {
  for (int stages = 2; stages <= 5; ++stages) {
    const Profile profile = make_profile({.layers = stages, .devices = stages});
    const Plan plan = scheduled(stages_of(stages, std::vector<int>(as_index(stages), 1), ones(2 * stages)), "1f1b");
    for (const Runtime runtime : {Runtime::megatron, Runtime::deepspeed, Runtime::torch})
      EXPECT_NEAR(predicted(plan, profile, runtime), predicted(plan, profile, Runtime::mptune), 1e-9) << name_of(runtime) << stages;
  }
}

// Random rows, plans with replicas, recomputation and unequal micro-batches: the bound holds.
TEST(Runtimes, TorchTakesRandomPlansAndIsNeverFasterThanTheBound) {
  std::mt19937 random(3);
  int ran = 0;
  for (int round = 0; round < 200; ++round) {
    const int layers = 2 + static_cast<int>(random() % 5);
    const int devices = 1 + static_cast<int>(random() % 4);
    const Profile profile = testing::random_cost(random, layers, devices).profile();
    Plan plan = testing::random_plan(random, layers, devices);
    if (round % 2 == 1) testing::RandomRows(random, plan, round % 3);
    if (!executable(plan, capabilities_of(Runtime::torch))) continue;
    ++ran;
    Profile torch = profile;
    torch.runtime = Runtime::torch;
    const Prediction prediction = predict(plan, CostModel(torch, plan));
    EXPECT_GE(prediction.step_s, prediction.lower_bound_s - 1e-9) << round;
  }
  EXPECT_GT(ran, 60);
}

// Valid for us, whose senders wait for nobody: the first stage wants the gradient of micro-batch 1 first, the second sends that of 0 first.
TEST(Runtimes, WaitForEachOtherForEverUnderSomeOrders) {
  Profile profile = make_profile({.layers = 2, .devices = 2});
  Plan plan = scheduled(stages_of(2, {1, 1}, ones(2)), "1f1b");
  plan.actions = schedule_from_csv("0F0,0F1,0B1,0B0\n1F0,1B0,1F1,1B1\n", "orders.csv");
  plan.schedule = "mine";
  EXPECT_GT(predicted(plan, profile, Runtime::mptune), 0);
  for (const Runtime runtime : {Runtime::megatron, Runtime::deepspeed}) {
    profile.runtime = runtime;
    EXPECT_THAT(std::string(testing::error_of([&] { (void)predict(plan, CostModel(profile, plan)); }).what()),
                AllOf(HasSubstr(std::string(name_of(runtime)) + " never ends the schedule mine"),
                      HasSubstr("sleep:0 waits to receive the gradient of micro-batch 1 of stage 1"),
                      HasSubstr("sleep:1 waits to send the gradient of micro-batch 0 of stage 1")));
  }
}

TEST(Runtimes, SayWhatTheyLack) {
  const Plan gpipe = scheduled(stages_of(2, {1, 1}, ones(4)), "gpipe");
  EXPECT_THAT(why_not_executable(gpipe, capabilities_of(Runtime::megatron)), HasSubstr("no schedule but 1f1b"));
  EXPECT_EQ(why_not_executable(gpipe, capabilities_of(Runtime::torch)), "");
  EXPECT_EQ(capabilities_of(Runtime::mptune), Capabilities());
  Plan fused = scheduled(stages_of(2, {1, 1}, ones(4)), "zb1p");
  for (std::vector<Action>& row : fused.actions) {
    std::erase_if(row, [](const Action& action) { return action.kind == ActionKind::backward_weight; });
    row.push_back({row.front().stage, ActionKind::backward_weight, 0, 3});
  }
  EXPECT_THAT(why_not_executable(fused, capabilities_of(Runtime::torch)), HasSubstr("fuse weight gradients"));
}

}  // namespace
}  // namespace mptune::planner
