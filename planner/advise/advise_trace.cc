#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <set>

#include "planner/advise/advise.h"
#include "planner/advise/worth.h"
#include "profiler/base/index.h"
#include "profiler/trace/analyze/replay.h"
#include "profiler/trace/analyze/step_work.h"
#include "profiler/trace/analyze/typical_times.h"

namespace mptune::planner {
namespace {

double seconds(Nanoseconds time) {
  return static_cast<double>(time.count()) * 1e-9;
}

// A recording's steps, replayed with durations that are chosen per piece of work.
class Replays {
 public:
  explicit Replays(const std::vector<profiler::StepWork>& steps) : steps_(steps), times_(steps) {
    for (const profiler::StepWork& step : steps) {
      levels_.emplace_back();
      for (int level = 0; level <= static_cast<int>(profiler::Typical::actual); ++level)
        levels_.back().push_back(times_.durations(step, static_cast<profiler::Typical>(level)));
    }
  }

  // Returns the mean end of the steps with every work's duration taken from a level.
  [[nodiscard]] double mean_end(const std::function<profiler::Typical(const profiler::Work&)>& level_of) const {
    Nanoseconds sum{0};
    for (std::size_t s = 0; s < steps_.size(); ++s) sum += end_of(s, level_of);
    return seconds(sum) / static_cast<double>(steps_.size());
  }
  [[nodiscard]] double mean_end(profiler::Typical level) const {
    return mean_end([level](const profiler::Work&) { return level; });
  }

 private:
  [[nodiscard]] Nanoseconds end_of(std::size_t s, const std::function<profiler::Typical(const profiler::Work&)>& level_of) const {
    std::vector<Nanoseconds> durations;
    for (std::size_t i = 0; i < steps_[s].works.size(); ++i) durations.push_back(levels_[s][as_index(level_of(steps_[s].works[i]))][i]);
    const std::vector<Nanoseconds> start = profiler::replay_starts(steps_[s].edges, durations);
    Nanoseconds end{0};
    for (std::size_t i = 0; i < start.size(); ++i) end = std::max(end, start[i] + durations[i]);
    return end;
  }

  const std::vector<profiler::StepWork>& steps_;
  profiler::TypicalTimes times_;
  std::vector<std::vector<std::vector<Nanoseconds>>> levels_;
};

struct Parties {
  std::set<int> stages;
  std::set<int> devices;
  std::set<std::pair<int, int>> links;
};

Parties parties_of(const std::vector<profiler::StepWork>& steps, const Trace& trace) {
  Parties parties;
  for (const profiler::StepWork& step : steps) {
    for (const profiler::Work& work : step.works) {
      if (work.tag.stage < 0) continue;
      if (work.kind == EventKind::copy) {
        const Copy copy = work.copy < 0 ? Copy{} : trace.copies.at(as_index(work.copy));
        parties.links.insert({copy.source, copy.destination});
      } else {
        parties.stages.insert(work.tag.stage);
        parties.devices.insert(work.device);
      }
    }
  }
  return parties;
}

class Advisor {
 public:
  Advisor(const Trace& trace, const std::vector<profiler::StepWork>& steps)
      : trace_(trace), replays_(steps), parties_(parties_of(steps, trace)) {
    Nanoseconds windows{0};
    for (const profiler::StepWork& step : steps) windows += step.window.end - step.window.start;
    step_s_ = seconds(windows) / static_cast<double>(steps.size());
  }

  std::vector<Advice> advise() {
    for (const int stage : parties_.stages) add_stage(stage);
    for (const int device : parties_.devices) add_device(device);
    for (const auto& [source, destination] : parties_.links) add_link(source, destination);
    add(IdleCause::jitter, "", -1, replays_.mean_end(profiler::Typical::actual) - replays_.mean_end(profiler::Typical::per_device),
        EvenSteps{});
    add(IdleCause::host, "", -1, step_s_ - replays_.mean_end(profiler::Typical::actual), PromptHosts{});
    return std::move(list_).take();
  }

 private:
  [[nodiscard]] std::string name_of(int device) const {
    return device >= 0 && as_index(device) < trace_.devices.size() ? trace_.devices[as_index(device)].name : "the host";
  }

  void add(IdleCause cause, const std::string& device, int stage, double saves_s, const Remedy& remedy) {
    list_.add({cause, device, stage, saves_s, 0, remedy}, step_s_);
  }

  void add_stage(int stage) {
    const double as_it_is = replays_.mean_end(profiler::Typical::uneven);
    const double as_the_mean = replays_.mean_end([stage](const profiler::Work& work) {
      return work.tag.stage == stage && work.kind != EventKind::copy ? profiler::Typical::copied : profiler::Typical::uneven;
    });
    add(IdleCause::imbalance, "", stage, as_it_is - as_the_mean, EvenStage{stage});
  }

  void add_device(int device) {
    const double as_it_is = replays_.mean_end(profiler::Typical::per_device);
    const double as_others = replays_.mean_end(
        [device](const profiler::Work& work) { return work.device == device ? profiler::Typical::uneven : profiler::Typical::per_device; });
    add(IdleCause::straggler, name_of(device), -1, as_it_is - as_others, EvenDevice{name_of(device)});
  }

  void add_link(int source, int destination) {
    const double as_it_is = replays_.mean_end(profiler::Typical::uneven);
    const double free = replays_.mean_end([&](const profiler::Work& work) {
      if (work.kind != EventKind::copy || work.copy < 0) return profiler::Typical::uneven;
      const Copy& copy = trace_.copies[as_index(work.copy)];
      return copy.source == source && copy.destination == destination ? profiler::Typical::balanced : profiler::Typical::uneven;
    });
    add(IdleCause::copy_wait, name_of(destination), -1, as_it_is - free, InstantCopies{name_of(source), name_of(destination)});
  }

  const Trace& trace_;
  Replays replays_;
  Parties parties_;
  double step_s_ = 0;
  Worth list_;
};

}  // namespace

std::vector<Advice> advise(const Trace& trace) {
  const std::vector<profiler::StepWork> steps = profiler::step_works(trace);
  const auto has_stages = [](const profiler::StepWork& step) {
    return std::any_of(step.works.begin(), step.works.end(), [](const profiler::Work& work) { return work.tag.stage >= 0; });
  };
  if (!std::any_of(steps.begin(), steps.end(), has_stages)) return {};
  return Advisor(trace, steps).advise();
}

}  // namespace mptune::planner
