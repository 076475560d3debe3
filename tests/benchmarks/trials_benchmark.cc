// How many measured trials until the best plan so far is within 5, 3 and 1 % of the best of a space that was measured whole, replayed from
// recordings: mptune's search, random search, and a bandit over search techniques as OpenTuner has.
//   benchmark_sweep MODEL INPUT BATCH DEVICES ROUNDS SCHEDULES PLANS FOLDER     records a space, once per model and devices
//   benchmark_trials FOLDER...                                                 replays them
// The truth is the median of a plan's recorded steps. A trial measures it, as replays of recorded spaces usually do; in the second table it
// takes the first two recorded steps alone, with all their noise. Random search and the bandit run with 200 seeds; mptune's search draws
// nothing, so there each space counts once. Printed: trials, 50th and 90th percentile over all spaces (and seeds), and the regret after 25
// trials.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "planner/cost/pool_costs.h"
#include "planner/plan/file/plan_file.h"
#include "profiler/base/index.h"
#include "tests/benchmarks/recorded_space.h"
#include "tuner/study/explore/refit.h"
#include "tuner/study/explore/trial_search.h"

using namespace mptune;
using namespace mptune::testing;

namespace {

constexpr std::array kWithin{0.05, 0.03, 0.01};
constexpr int kSeeds = 200;
constexpr int kRegretAfter = 25;

enum class TrialTakes { the_truth, two_steps };

/// One space: choices, what a trial of each measures, and the truth.
struct Space {
  std::string folder;
  Profile profile;
  std::vector<PlanChoice> choices;
  std::vector<Candidate> candidates;  ///< with predictions
  std::vector<double> trial_s, truth_s;
  double best_s = 0;

  [[nodiscard]] std::size_t size() const { return choices.size(); }
};

double median_of_first(const std::vector<double>& values, std::size_t count) {
  return median(std::vector<double>(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(std::min(count, values.size()))));
}

Space read_space(const std::string& folder, TrialTakes takes) {
  Space space;
  space.folder = folder;
  space.profile = profiler::read_recording(folder + "/profile.sqlite").profile.value();
  const CostModel cost(space.profile);
  std::vector<std::string> devices;
  for (const ProfileDevice& device : space.profile.devices)
    if (devices.size() < 2) devices.push_back(device.name);
  for (const RecordedPlan& recorded : read_plans(folder)) {
    const Plan plan = plan_of(recorded.choice, devices, space.profile.batch, cost);
    space.choices.push_back(recorded.choice);
    space.candidates.push_back({plan, predict(plan, cost)});
    space.truth_s.push_back(median(recorded.step_s));
    space.trial_s.push_back(takes == TrialTakes::two_steps ? median_of_first(recorded.step_s, 2) : space.truth_s.back());
  }
  space.best_s = std::ranges::min(space.truth_s);
  return space;
}

/// Best true step after each trial, over the best of the space. The best so far is chosen by what its trial measured.
class Progress {
 public:
  explicit Progress(const Space& space) : space_(space) {}

  void tried(std::size_t plan) {
    if (ratios_.empty() || space_.trial_s[plan] < space_.trial_s[best_]) best_ = plan;
    ratios_.push_back(space_.truth_s[best_] / space_.best_s);
  }
  /// Trials until the best so far is and stays within; the whole space where it never is.
  [[nodiscard]] double trials_within(double share) const {
    std::size_t needed = ratios_.size();
    while (needed > 0 && ratios_[needed - 1] <= 1 + share) --needed;
    return static_cast<double>(needed < ratios_.size() ? needed + 1 : space_.size());
  }
  [[nodiscard]] double regret_after(int trials) const { return ratios_[std::min(as_index(trials), ratios_.size()) - 1] - 1; }
  [[nodiscard]] int trials() const { return static_cast<int>(ratios_.size()); }

 private:
  const Space& space_;
  std::vector<double> ratios_;
  std::size_t best_ = 0;
};

Progress search_of_mptune(const Space& space, bool learns) {
  Progress progress(space);
  std::map<std::string, std::size_t> index;
  for (std::size_t i = 0; i < space.size(); ++i) index[plan_key(space.candidates[i].plan)] = i;
  tuner::TrialSearch search(space.candidates, {});
  std::vector<tuner::Trial> trials;
  while (const auto next = search.next()) {
    const std::size_t plan = index.at(plan_key(next->plan));
    progress.tried(plan);
    trials.push_back({.name = "candidate",
                      .plan_key = plan_key(next->plan),
                      .plan = next->plan,
                      .prediction = next->prediction,
                      .outcome = tuner::Measured{samples_of({space.trial_s[plan], space.trial_s[plan]}), {}, 0}});
    search.observe(trials.back());
    const auto fitted = learns ? tuner::refit(space.profile, trials) : std::nullopt;
    if (!fitted) continue;
    const Profile learnt = tuner::with_factors(space.profile, fitted->factors);
    search.predict_again([&](const Plan& of) { return std::optional(predict(of, CostModel(learnt, of))); });
  }
  return progress;
}

Progress random_search(const Space& space, unsigned seed) {
  Progress progress(space);
  std::vector<std::size_t> order(space.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::mt19937 random(seed);
  std::ranges::shuffle(order, random);
  for (const std::size_t plan : order) progress.tried(plan);
  return progress;
}

/// How far apart two choices are: cuts by layers, micro-batches by halvings, another schedule counts as one.
double distance(const PlanChoice& a, const PlanChoice& b) {
  double sum = std::abs(std::log2(a.microbatches) - std::log2(b.microbatches)) + (a.schedule == b.schedule ? 0 : 1) +
               (a.idle_devices_help == b.idle_devices_help ? 0 : 1);
  if (a.cuts.size() != b.cuts.size()) return sum + 10;
  for (std::size_t i = 0; i < a.cuts.size(); ++i) sum += std::abs(a.cuts[i] - b.cuts[i]);
  return sum;
}

/// Techniques that share credit by the area under the curve of their improvements in a window, as OpenTuner's AUC bandit does: random
/// plans, neighbours of the best (hill climbing), and plans near the middle of two good ones (crossover).
class Bandit {
 public:
  Bandit(const Space& space, unsigned seed) : space_(space), random_(seed), untried_(space.size(), true) {}

  Progress run() {
    Progress progress(space_);
    for (std::size_t trial = 0; trial < space_.size(); ++trial) {
      const std::size_t technique = choose_technique();
      const std::size_t plan = propose(technique);
      untried_[plan] = false;
      const bool better = good_.empty() || space_.trial_s[plan] < space_.trial_s[good_.front()];
      history_.push_back({technique, better});
      good_.push_back(plan);
      std::ranges::sort(good_, {}, [&](std::size_t i) { return space_.trial_s[i]; });
      progress.tried(plan);
    }
    return progress;
  }

 private:
  static constexpr std::size_t kTechniques = 3;
  static constexpr std::size_t kWindow = 50;
  static constexpr double kExploration = 0.05;

  [[nodiscard]] std::size_t choose_technique() const {
    std::array<double, kTechniques> area{}, uses{};
    const std::size_t first = history_.size() > kWindow ? history_.size() - kWindow : 0;
    for (std::size_t i = first; i < history_.size(); ++i) {
      const double use = ++uses[history_[i].technique];
      if (history_[i].better) area[history_[i].technique] += use;
    }
    std::array<double, kTechniques> score{};
    for (std::size_t t = 0; t < kTechniques; ++t) {
      if (uses[t] == 0) return t;
      score[t] = 2 * area[t] / (uses[t] * (uses[t] + 1)) +
                 kExploration * std::sqrt(2 * std::log2(static_cast<double>(history_.size() - first)) / uses[t]);
    }
    return as_index(std::ranges::max_element(score) - score.begin());
  }

  std::size_t propose(std::size_t technique) {
    if (technique == 0 || good_.empty()) return random_untried();
    const PlanChoice& best = space_.choices[good_.front()];
    if (technique == 1) return nearest_untried([&](const PlanChoice& choice) { return distance(choice, best); });
    const PlanChoice& other = space_.choices[good_[random_() % std::min<std::size_t>(good_.size(), 5)]];
    return nearest_untried([&](const PlanChoice& choice) { return distance(choice, best) + distance(choice, other); });
  }
  std::size_t random_untried() {
    std::size_t plan = random_() % space_.size();
    while (!untried_[plan]) plan = (plan + 1) % space_.size();
    return plan;
  }
  std::size_t nearest_untried(const std::function<double(const PlanChoice&)>& far) {
    std::size_t nearest = random_untried();  // among equals a random one
    double least = far(space_.choices[nearest]);
    for (std::size_t i = 0; i < space_.size(); ++i) {
      if (!untried_[i] || far(space_.choices[i]) >= least) continue;
      nearest = i;
      least = far(space_.choices[i]);
    }
    return nearest;
  }

  struct Use {
    std::size_t technique = 0;
    bool better = false;
  };
  const Space& space_;
  std::mt19937 random_;
  std::vector<bool> untried_;
  std::vector<std::size_t> good_;  // tried, best first
  std::vector<Use> history_;
};

double percentile(std::vector<double> values, double share) {
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size()))) - 1];
}

void print_row(const char* name, const std::vector<Progress>& runs) {
  std::printf("%-26s", name);
  for (const double within : kWithin) {
    std::vector<double> trials;
    for (const Progress& run : runs) trials.push_back(run.trials_within(within));
    std::printf("   %5.0f %5.0f", percentile(trials, 0.5), percentile(trials, 0.9));
  }
  std::vector<double> regrets;
  for (const Progress& run : runs) regrets.push_back(100 * run.regret_after(kRegretAfter));
  std::printf("   %6.2f %6.2f\n", percentile(regrets, 0.5), percentile(regrets, 0.95));
}

void print_space(const Space& space, const Progress& progress) {
  std::vector<double> errors;
  for (std::size_t i = 0; i < space.size(); ++i)
    errors.push_back(100 * std::abs(space.candidates[i].prediction.step_s / space.truth_s[i] - 1));
  std::printf("%s: %zu plans, simulator's error median %.1f %%, 90th percentile %.1f %%\n", space.folder.c_str(), space.size(),
              percentile(errors, 0.5), percentile(errors, 0.9));
  std::printf("  mptune: within 5, 3 and 1 %% after %.0f, %.0f and %.0f trials; stops after %d, %.1f %% behind the best\n",
              progress.trials_within(0.05), progress.trials_within(0.03), progress.trials_within(0.01), progress.trials(),
              100 * progress.regret_after(progress.trials()));
}

void replay(const std::vector<std::string>& folders, TrialTakes takes) {
  std::map<std::string, std::vector<Progress>> runs;
  std::vector<Space> spaces;  // which runs refer to
  for (const std::string& folder : folders) spaces.push_back(read_space(folder, takes));
  for (const Space& space : spaces) {
    runs["1 mptune"].push_back(search_of_mptune(space, true));
    print_space(space, runs["1 mptune"].back());
    runs["2 mptune without refitting"].push_back(search_of_mptune(space, false));
    for (unsigned seed = 0; seed < kSeeds; ++seed) {
      runs["3 bandit"].push_back(Bandit(space, seed).run());
      runs["4 random"].push_back(random_search(space, seed));
    }
  }
  std::puts("trials to within:               5 %           3 %           1 %       regret after 25 trials, %");
  std::puts("                              p50   p90     p50   p90     p50   p90      p50    p95");
  for (const auto& [name, of_name] : runs) print_row(name.c_str() + 2, of_name);
}

int run(const std::vector<std::string>& folders) {
  std::puts("A trial measures a plan's true step:");
  replay(folders, TrialTakes::the_truth);
  std::puts("\nA trial takes two steps:");
  replay(folders, TrialTakes::two_steps);
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2) {
    std::puts("usage: benchmark_trials FOLDER...");
    return 2;
  }
  return run({argv + 1, argv + argc});
} catch (const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return static_cast<int>(error.code());
}
