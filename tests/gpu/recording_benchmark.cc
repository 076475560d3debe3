// What recording costs and whether it sees everything: the same training step without a recorder, with mptune's, and with Kineto, the
// engine of torch.profiler. Each runs in a process of its own, since CUPTI serves one recorder a process and stays with it; the processes
// take turns.
//   benchmark_recording MODEL [INPUT [BATCH [DEVICES [ROUNDS]]]]      32 samples, cuda:0 and 20 rounds unless given
//
// What it prints, with figures that are made up:
//   recorder             step     cost           95 %   kernels/step  busy/step
//   none              61.20 ms
//   mptune            61.90 ms  +1.1 %    [0.9, 1.3] %          2210   58.31 ms
//   Kineto            63.05 ms  +3.0 %    [2.7, 3.4] %          2210   58.30 ms
//   Kineto, GPU only  62.10 ms  +1.5 %    [1.2, 1.7] %          2210   58.30 ms
//
// Exit 1 where GPUs are recorded and a limit is broken: see check_limits. Kineto is a measure with a fault of its own: it sets CUPTI's
// clock, and CUPTI 12.6 to 13.0 then loses kernels (fixed in 13.1). Where it saw fewer kernels, busy times are not compared.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "planner/search/make_plan.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/device/cpu_allocator.h"
#include "profiler/device/gpu_library.h"
#include "profiler/device/precise_sleep.h"
#include "profiler/trace/statistics/samples.h"
#include "profiler/trace/statistics/verdict.h"
#include "tests/gpu/recorders.h"
#include "tuner/worker/program/requests.h"

using namespace mptune;
using namespace mptune::profiler;
using namespace mptune::testing;
using namespace mptune::tuner;

namespace {

constexpr int kUntimedSteps = 1;  // of every turn: another process had the device before
constexpr int kTimedSteps = 3;
constexpr double kMostCost = 0.02;
constexpr double kLeastTagged = 0.999;
constexpr double kMostBusyDifference = 0.001;

struct Task {
  tuner::TrainingSetup setup;
  int rounds = 20;
};

template <typename Value>
void send(int fd, const Value& value) {
  if (write(fd, &value, sizeof value) != static_cast<ssize_t>(sizeof value)) std::_Exit(1);  // the other process is gone
}

template <typename Value>
bool receive(int fd, Value& value) {
  return recv(fd, &value, sizeof value, MSG_WAITALL) == static_cast<ssize_t>(sizeof value);
}

enum class Order : char { turn, end };

Plan plan_of(const Task& task, int layers) {
  PlanOptions options;
  options.devices = task.setup.devices;
  options.batch = task.setup.batch;
  options.layers = layers;
  options.stages = static_cast<int>(options.devices.size());
  options.microbatches = std::min(4 * options.stages, options.batch);
  return make_plan(options);
}

/// One process: runs steps when it is asked to, until it is asked for what its recorder saw.
void serve(const Task& task, const RecorderChoice& choice, int fd) {
  prepare_gpus();
  Model model = tuner::model_of(task.setup).model;
  Batch batch = tuner::batch_of(task.setup, model);
  const Plan plan = plan_of(task, model.size());
  tuner::TrainingRun run(task.setup, std::move(model), plan, std::move(batch));
  for (int i = 0; i < 3; ++i) (void)run.step();
  const auto recorder = choice.make(run.pipeline());
  recorder->start(run);
  (void)recorder->step(run);
  send(fd, Order::turn);  // ready
  for (Order order{}; receive(fd, order) && order == Order::turn;) {
    for (int i = 0; i < kUntimedSteps; ++i) (void)recorder->step(run);
    std::vector<double> seconds;
    for (int i = 0; i < kTimedSteps; ++i) seconds.push_back(recorder->step(run));
    send(fd, median(std::move(seconds)));
  }
  send(fd, recorder->stop());
}

void print_error(const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
}

/// Steps with one recorder, in a process that ends with this object.
class Server {
 public:
  Server(const Task& task, const RecorderChoice& choice) {
    std::array<int, 2> ends{};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
      throw Error("no connection to a process of its own", choice.name, "allow this process more files (ulimit -n)", ExitCode::environment);
    pid_ = fork();
    fd_ = ends[0];
    if (pid_ != 0) {
      close(ends[1]);
      return;
    }
    close(ends[0]);
    try {
      serve(task, choice, ends[1]);
    } catch (const Error& error) {
      print_error(error);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s: %s\n", choice.name, error.what());
    }
    std::fflush(stderr);
    std::_Exit(0);  // the destructors of libraries that recorders have hooked are not what is measured
  }
  ~Server() {
    close(fd_);
    (void)waitpid(pid_, nullptr, 0);
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  template <typename Value>
  Value next() {
    Value value{};
    if (!receive(fd_, value))
      throw Error("a process ended before its time", "benchmark_recording", "see its message", ExitCode::environment);
    return value;
  }
  double turn() {
    send(fd_, Order::turn);
    return next<double>();
  }
  Seen end() {
    send(fd_, Order::end);
    return next<Seen>();
  }

 private:
  pid_t pid_ = -1;
  int fd_ = -1;
};

struct Measured {
  Samples steps;
  Seen seen;
};
using Results = std::array<Measured, kChoices>;

Results measure(const Task& task) {
  std::array<std::unique_ptr<Server>, kChoices> servers;
  // One after another: they would slow each other down while they start.
  for (std::size_t choice = 0; choice < kChoices; ++choice) {
    servers[choice] = std::make_unique<Server>(task, kAllChoices[choice]);
    (void)servers[choice]->next<Order>();
  }
  Results results;
  for (int round = 0; round < task.rounds; ++round)
    for (std::size_t position = 0; position < kChoices; ++position) {
      const std::size_t choice = (position + as_index(round)) % kChoices;
      results[choice].steps.values.push_back({servers[choice]->turn(), round, static_cast<int>(position), 0});
    }
  for (std::size_t choice = 0; choice < kChoices; ++choice) results[choice].seen = servers[choice]->end();
  return results;
}

/// Time of a step with this recorder over the time without, as a share above 1.
Speedup cost_of(const Results& results, std::size_t choice) {
  return paired_speedup(results[choice].steps, results[kNone].steps);
}

/// The 95 % interval, of fewer than six rounds the range.
Interval ends_of(const Speedup& speedup) {
  return speedup.ci95.value_or(speedup.range.value_or(Interval{1, 1}));
}

int recorded_steps(const Task& task) {
  return 1 + task.rounds * (kUntimedSteps + kTimedSteps);
}

void print_table(const Task& task, const Results& results) {
  std::printf("%-18s %11s %8s %16s %14s %11s\n", "recorder", "step", "cost", "95 %", "kernels/step", "busy/step");
  for (std::size_t choice = 0; choice < kChoices; ++choice) {
    std::printf("%-18s %8.2f ms", kAllChoices[choice].name, 1e3 * median(results[choice].steps));
    if (choice != kNone) {
      const Speedup cost = cost_of(results, choice);
      const Interval ends = ends_of(cost);
      std::printf(" %+6.2f %% [%5.2f, %5.2f] %%", 100 * (cost.estimate - 1), 100 * (ends.low - 1), 100 * (ends.high - 1));
    }
    if (const Seen& seen = results[choice].seen; seen.events > 0)
      std::printf(" %14.1f %8.3f ms", static_cast<double>(seen.kernels) / recorded_steps(task), 1e3 * seen.busy_s / recorded_steps(task));
    std::printf("\n");
  }
}

/// How far two recordings of the same work lie apart.
double apart(double a, double b) {
  return b > 0 ? a / b - 1 : 1;
}

/// Prints what each limit is and what was found, in one line; true where all are kept. Busy times of two processes differ by themselves: as
/// much as Kineto's two recordings do is allowed.
bool check_limits(const Task& task, const Results& results) {
  const Seen &ours = results[kOurs].seen, &theirs = results[kKineto].seen;
  bool kept = true;
  const auto limit = [&](bool good, const char* format, auto... values) {
    std::printf(format, values...);
    std::printf("%s; ", good ? "" : " (broken)");
    kept = kept && good;
  };
  const double cost = cost_of(results, kOurs).estimate - 1, others = cost_of(results, kKineto).estimate - 1;
  const Speedup against = paired_speedup(results[kOurs].steps, results[kKineto].steps);
  const double tagged = 1 - static_cast<double>(ours.untagged) / static_cast<double>(std::max<std::int64_t>(ours.events, 1));
  const double allowed = kMostBusyDifference + std::abs(apart(results[kKinetoGpuOnly].seen.busy_s, theirs.busy_s));
  const double difference = apart(ours.busy_s, theirs.busy_s);
  limit(cost <= kMostCost, "cost %+.2f %% (at most 2 %%)", 100 * cost);
  const Interval ends = ends_of(against);
  limit(ends.low <= 1, "Kineto's %+.2f %%, step over Kineto's step %.4f [%.4f, %.4f] (not surely above 1)", 100 * others, against.estimate,
        ends.low, ends.high);
  limit(ours.events > 0 && tagged >= kLeastTagged, "tagged %.3f %% (at least 99.9 %%)", 100 * tagged);
  limit(ours.kernels % recorded_steps(task) == 0, "%.3f kernels a step (the same in each)",
        static_cast<double>(ours.kernels) / recorded_steps(task));
  limit(ours.kernels >= theirs.kernels, "%+lld kernels against Kineto (not fewer)", static_cast<long long>(ours.kernels - theirs.kernels));
  limit(ours.kernels != theirs.kernels || std::abs(difference) <= allowed, "busy %+.3f %% against Kineto (%.3f %%%s)", 100 * difference,
        100 * allowed, ours.kernels != theirs.kernels ? ", not compared" : "");
  limit(ours.dropped == 0, "dropped %lld (none)", static_cast<long long>(ours.dropped));
  std::printf("%s\n", kept ? "all limits kept" : "not all limits kept");
  return kept;
}

bool gpus_among(const std::vector<std::string>& devices) {
  return std::any_of(devices.begin(), devices.end(), [](const std::string& device) { return device.starts_with("cuda:"); });
}

Task task_of(int argc, char** argv) {
  const auto argument = [&](int index, const char* otherwise) { return argc > index ? argv[index] : otherwise; };
  Task task;
  task.setup.model = argv[1];
  task.setup.input = argument(2, "");
  task.setup.batch = std::max(1, std::atoi(argument(3, "32")));
  // Only split here: whoever asks for GPUs starts CUDA, and a process that has can't fork.
  std::istringstream devices(argument(4, "cuda:0"));
  for (std::string device; std::getline(devices, device, ',');) task.setup.devices.push_back(device);
  task.rounds = std::max(1, std::atoi(argument(5, "20")));
  return task;
}

}  // namespace

int main(int argc, char** argv) try {
  install_cpu_accounting();
  if (argc < 2 || argv[1][0] == '-') {
    std::puts("usage: benchmark_recording MODEL [INPUT [BATCH [DEVICES [ROUNDS]]]]");
    return argc < 2 ? 2 : 0;
  }
  const Task task = task_of(argc, argv);
  const Results results = measure(task);
  std::printf("%s, batch %d, %zu devices: %d rounds of %d steps, recorders in turn\n", task.setup.model.c_str(), task.setup.batch,
              task.setup.devices.size(), task.rounds, kTimedSteps);
  print_table(task, results);
  if (const char* refusal = results[kOurs].seen.refusal.data(); *refusal != '\0') {
    std::printf("GPUs were not recorded: %s\n", refusal);
    return 1;
  }
  if (gpus_among(task.setup.devices)) return check_limits(task, results) ? 0 : 1;
  std::printf("cost %+.2f %%, Kineto's %+.2f %%; limits are those of GPUs\n", 100 * (cost_of(results, kOurs).estimate - 1),
              100 * (cost_of(results, kKineto).estimate - 1));
  return 0;
} catch (const Error& error) {
  print_error(error);
  return static_cast<int>(error.code());
}
