#include "planner/published/aceso_stages.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "planner/simulate/operations.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

constexpr double kMiB = 1 << 20;
constexpr std::size_t kMostChoices = 500;          // choices of one piece
constexpr std::size_t kMostExpanded = 2'000'000;   // steps of a combination before the beaten ones go
constexpr std::size_t kMostKeptSteps = 4'000'000;  // steps of all pieces of a combination together

std::int64_t difference(const std::vector<std::int64_t>& sums, int first, int last) {
  return sums[as_index(last)] - sums[as_index(first)];
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

// Returns the least time that saves `bytes` at this rate, a little less, so that it stays a lower bound after rounding.
std::int64_t time_at_rate(std::int64_t bytes, double rate) {
  if (bytes <= 0) return 0;
  if (rate <= 0) return std::numeric_limits<std::int64_t>::max();
  return static_cast<std::int64_t>(static_cast<double>(bytes) / rate * (1 - 1e-9));
}

double rate_of(const AcesoChoice& choice) {
  if (choice.saved_bytes <= 0) return 0;
  return choice.time_ns > 0 ? static_cast<double>(choice.saved_bytes) / static_cast<double>(choice.time_ns)
                            : std::numeric_limits<double>::infinity();
}

bool beats(const AcesoChoice& a, const AcesoChoice& b) {
  return a.time_ns <= b.time_ns && a.saved_bytes >= b.saved_bytes && a.again_bytes <= b.again_bytes;
}

// Keeps every n-th of more than `most` values, the first and the last among them. Returns true if some are left out.
template <class Value>
bool thin_out(std::vector<Value>& values, std::size_t most) {
  if (values.size() <= most) return false;
  std::vector<Value> kept;
  for (std::size_t i = 0; i < most; ++i) kept.push_back(std::move(values[i * (values.size() - 1) / (most - 1)]));
  values = std::move(kept);
  return true;
}

// Keeps the choices that no other choice beats in time, savings and bytes held again; sorted by time.
void keep_unbeaten(std::vector<AcesoChoice>& choices) {
  std::sort(choices.begin(), choices.end(), [](const AcesoChoice& a, const AcesoChoice& b) {
    return std::tie(a.time_ns, b.saved_bytes, a.again_bytes, a.recomputed) <
           std::tie(b.time_ns, a.saved_bytes, b.again_bytes, b.recomputed);
  });
  std::vector<AcesoChoice> kept;
  for (AcesoChoice& choice : choices)
    if (std::none_of(kept.begin(), kept.end(), [&](const AcesoChoice& other) { return beats(other, choice); }))
      kept.push_back(std::move(choice));
  choices = std::move(kept);
}

// Choices of several pieces together, where no run holds more than `again_limit`, so that only time and savings count.
class Combination {
 public:
  Combination(const std::vector<const std::vector<AcesoChoice>*>& pieces, std::int64_t again_limit, AcesoEffort& effort)
      : pieces_(pieces), again_limit_(again_limit), effort_(effort) {
    for (const std::vector<AcesoChoice>* piece : pieces) {
      std::int64_t most = 0;
      for (const AcesoChoice& choice : *piece) {
        if (choice.again_bytes > again_limit) continue;
        rate_ = std::max(rate_, rate_of(choice));
        most = std::max(most, choice.saved_bytes);
      }
      still_.push_back(most);
    }
    for (std::size_t p = still_.size(); p > 1; --p) still_[p - 2] += still_[p - 1];
    still_.push_back(0);
  }

  // Returns which choice of every piece saves `need` in the least time, at most `longest_ns`; empty: none does.
  std::vector<int> least_time(std::int64_t need, std::int64_t longest_ns) {
    if (still_.front() < need || rate_ <= 0 || time_at_rate(need, rate_) > longest_ns) return {};
    steps_.assign(1, {Step{}});
    for (const std::vector<AcesoChoice>* piece : pieces_)
      if (!add(*piece, need, longest_ns)) return {};
    const std::vector<Step>& last = steps_.back();
    const auto found = std::find_if(last.begin(), last.end(), [&](const Step& step) { return step.saved_bytes >= need; });
    if (found == last.end()) return {};
    std::vector<int> chosen(pieces_.size());
    int at = static_cast<int>(found - last.begin());
    for (std::size_t p = pieces_.size(); p > 0; --p) {
      const Step& step = steps_[p][as_index(at)];
      chosen[p - 1] = step.choice;
      at = step.before;
    }
    return chosen;
  }

 private:
  struct Step {
    std::int64_t time_ns = 0;
    std::int64_t saved_bytes = 0;
    int before = -1;  // index into the step before
    int choice = -1;
  };

  // Returns false where the effort is spent.
  bool add(const std::vector<AcesoChoice>& piece, std::int64_t need, std::int64_t longest_ns) {
    std::vector<Step> next;
    std::vector<Step>& now = steps_.back();
    effort_.limited |= thin_out(now, std::max<std::size_t>(2, std::min(kMostExpanded / piece.size(), kMostKeptSteps / pieces_.size())));
    if (!effort_.spend(std::ssize(now) * std::ssize(piece))) return false;
    for (std::size_t i = 0; i < now.size(); ++i) {
      for (std::size_t c = 0; c < piece.size(); ++c) {
        if (piece[c].again_bytes > again_limit_) continue;
        const Step step{now[i].time_ns + piece[c].time_ns, std::min(need, now[i].saved_bytes + piece[c].saved_bytes), static_cast<int>(i),
                        static_cast<int>(c)};
        if (step.saved_bytes + still_[steps_.size()] < need) continue;
        if (step.time_ns + time_at_rate(need - step.saved_bytes, rate_) <= longest_ns) next.push_back(step);
      }
    }
    std::sort(next.begin(), next.end(), [](const Step& a, const Step& b) {
      return std::tie(a.time_ns, b.saved_bytes, a.before, a.choice) < std::tie(b.time_ns, a.saved_bytes, b.before, b.choice);
    });
    std::vector<Step> kept;
    for (const Step& step : next)
      if (kept.empty() || step.saved_bytes > kept.back().saved_bytes) kept.push_back(step);
    steps_.push_back(std::move(kept));
    return true;
  }

  const std::vector<const std::vector<AcesoChoice>*>& pieces_;
  std::int64_t again_limit_;
  AcesoEffort& effort_;
  double rate_ = 0;
  std::vector<std::int64_t> still_;       // most bytes that the pieces from each one on can save
  std::vector<std::vector<Step>> steps_;  // after each piece; time and saved bytes grow from one step to the next
};

}  // namespace

bool AcesoEffort::spend(std::int64_t sets) {
  limited |= sets > sets_left;
  if (sets > sets_left) return false;
  sets_left -= sets;
  return true;
}

AcesoStages::AcesoStages(const AcesoProblem& problem, const AcesoTable& table, AcesoEffort& effort)
    : problem_(problem), table_(table), effort_(effort) {
  for (int i = 0; i < operators(); ++i) {
    compute_ns_.push_back(compute_ns_.back() + op(i).forward_ns + op(i).backward_ns);
    weights_.push_back(weights_.back() + op(i).weights_bytes);
    kept_.push_back(kept_.back() + op(i).saved_activation_bytes);
    const bool with_next = i + 1 < operators() && op(i).recomputable && op(i + 1).recomputable && !op(i + 1).begins_piece;
    saveable_.push_back(saveable_.back() + (with_next ? op(i).saved_activation_bytes : 0));
    same_as_.push_back(static_cast<int>(std::find(table.operators.begin(), table.operators.end(), op(i)) - table.operators.begin()));
  }
  find_reserves();
  find_best_rate();
}

void AcesoStages::find_reserves() {
  const auto n = as_index(operators());
  reserves_.assign(n * n, 0);
  for (int first = 0; first < operators(); ++first) {
    std::int64_t forward = 0;
    std::int64_t backward = 0;
    for (int last = first + 2; last <= operators(); ++last) {
      forward = std::max(forward, op(last - 2).forward_reserved_bytes);
      backward = std::max(backward, op(last - 2).backward_reserved_bytes);
      reserves_[as_index(first) * n + as_index(last) - 1] = forward + backward;
    }
  }
}

void AcesoStages::find_best_rate() {
  for (int first = 0; first < operators(); ++first) {
    AcesoChoice run;
    for (int last = first; last < operators() && op(last).recomputable && (last == first || !op(last).begins_piece); ++last) {
      run.time_ns += op(last).forward_ns;
      best_rate_ = std::max(best_rate_, rate_of(run));
      run.saved_bytes += op(last).saved_activation_bytes;
    }
  }
}

std::int64_t AcesoStages::copy_ns(std::int64_t bytes) const {
  if (bytes <= 0 || problem_.links.empty()) return 0;
  const int power = static_cast<int>(std::floor(std::log2(static_cast<double>(bytes) / kMiB)));
  const int entry = std::clamp(power - 1, 0, static_cast<int>(problem_.links.size()) - 1);
  const LinkPoint& point = problem_.links[as_index(entry)];
  return to_ns(point.seconds * static_cast<double>(bytes) / static_cast<double>(point.bytes) * 1.024);
}

std::int64_t AcesoStages::turn_ns(int first, int last) const {
  return difference(compute_ns_, first, last) + copy_ns(op(first).input_bytes) + copy_ns(op(last - 1).output_bytes);
}

std::int64_t AcesoStages::held_bytes(int in_flight, int first, int last) const {
  return problem_.held_per_weight * difference(weights_, first, last) +
         in_flight * (op(first).input_bytes + difference(kept_, first, last));
}

std::int64_t AcesoStages::reserved_bytes(int first, int last) const {
  const auto n = as_index(operators());
  return std::max(reserves_[as_index(first) * n + as_index(last) - 1], difference(weights_, first, last));
}

std::int64_t AcesoStages::excess_bytes(int in_flight, int first, int last) const {
  if (problem_.memory_bytes <= 0) return 0;
  return held_bytes(in_flight, first, last) + reserved_bytes(first, last) - problem_.memory_bytes;
}

std::optional<std::int64_t> AcesoStages::least_recompute_ns(int in_flight, int first, int last) const {
  const std::int64_t excess = excess_bytes(in_flight, first, last);
  if (excess <= 0) return 0;
  if (in_flight * difference(saveable_, first, last - 1) < excess) return std::nullopt;
  return time_at_rate(ceil_div(excess, in_flight), best_rate_);
}

AcesoChoice AcesoStages::effect(const std::vector<int>& recomputed, int stage_last) const {
  AcesoChoice effect;
  effect.recomputed = recomputed;
  std::int64_t run = 0;
  for (std::size_t i = 0; i < recomputed.size(); ++i) {
    const int at = recomputed[i];
    const bool goes_on = i + 1 < recomputed.size() && recomputed[i + 1] == at + 1 && !ends_piece(at);
    effect.time_ns += op(at).forward_ns;
    if (goes_on) {
      effect.saved_bytes += op(at).saved_activation_bytes;
      run += op(at).saved_activation_bytes;
    } else {
      if (ends_piece(at) && at + 1 < stage_last) run += op(at).saved_activation_bytes;
      effect.again_bytes = std::max(effect.again_bytes, run);
      run = 0;
    }
  }
  return effect;
}

std::vector<int> AcesoStages::piece_key(int first, int last, bool ends_stage) const {
  std::vector<int> key(same_as_.begin() + first, same_as_.begin() + last);
  key.push_back(ends_stage ? -1 : -2);
  return key;
}

// Choices are sorted by time, so those that stay range from the least time to the most.
void AcesoStages::keep_best(std::vector<AcesoChoice>& choices) {
  keep_unbeaten(choices);
  effort_.limited |= thin_out(choices, kMostChoices);
}

// Returns all sets of runs of one piece that nothing beats. Between two runs lies at least one operator.
const std::vector<AcesoChoice>& AcesoStages::piece(int first, int last, bool ends_stage) {
  const auto [found, fresh] = pieces_.try_emplace(piece_key(first, last, ends_stage));
  if (!fresh) return found->second;
  const int length = last - first;
  std::vector<std::vector<AcesoChoice>> up_to(as_index(length) + 2);  // choices that leave the operators from here on free
  up_to.front().push_back({});
  for (int at = 0; at < length; ++at) {
    std::vector<AcesoChoice>& here = up_to[as_index(at)];
    keep_best(here);
    for (const AcesoChoice& before : here) {
      up_to[as_index(at) + 1].push_back(before);
      if (!effort_.spend(length - at)) continue;
      AcesoChoice with = before;
      std::int64_t saved = 0;
      for (int end = at; end < length && op(first + end).recomputable; ++end) {
        with.time_ns += op(first + end).forward_ns;
        with.recomputed.push_back(end);
        const std::int64_t output = end + 1 == length && !ends_stage ? op(first + end).saved_activation_bytes : 0;
        AcesoChoice choice = with;
        choice.saved_bytes += saved;
        choice.again_bytes = std::max(choice.again_bytes, saved + output);
        std::vector<AcesoChoice>& behind = up_to[as_index(std::min(end + 2, length))];
        if (saved > 0) behind.push_back(std::move(choice));
        if (behind.size() >= 4 * kMostChoices) keep_best(behind);
        saved += op(first + end).saved_activation_bytes;
      }
    }
  }
  std::vector<AcesoChoice>& all = up_to[as_index(length)];
  keep_best(all);
  return found->second = std::move(all);
}

// Recomputes all that can be of the first pieces, of as few pieces as make the range fit.
std::optional<AcesoChoice> AcesoStages::first_pieces(int in_flight, int first, int last, std::int64_t longest_ns) const {
  std::vector<int> all;
  std::vector<std::ptrdiff_t> ends;  // of the pieces, among them
  for (int i = first; i < last; ++i) {
    if (op(i).recomputable) all.push_back(i);
    if (i + 1 == last || ends_piece(i)) ends.push_back(std::ssize(all));
  }
  const auto of_first = [&](std::ptrdiff_t end) { return effect(std::vector<int>(all.begin(), all.begin() + end), last); };
  const std::int64_t excess = excess_bytes(in_flight, first, last);
  const auto is_over = [&](std::ptrdiff_t end) {
    const AcesoChoice choice = of_first(end);
    return excess + choice.again_bytes > in_flight * choice.saved_bytes;
  };
  const auto least = std::ranges::partition_point(ends, is_over);
  if (least == ends.end()) return std::nullopt;
  AcesoChoice choice = of_first(*least);
  return choice.time_ns <= longest_ns ? std::optional(std::move(choice)) : std::nullopt;
}

std::optional<AcesoChoice> AcesoStages::recompute(int in_flight, int first, int last, std::int64_t longest_ns) {
  if (excess_bytes(in_flight, first, last) <= 0) return AcesoChoice{};
  std::optional<AcesoChoice> least = least_of_pieces(in_flight, first, last, longest_ns);
  if (least || !effort_.limited) return least;
  return first_pieces(in_flight, first, last, longest_ns);
}

std::optional<AcesoChoice> AcesoStages::least_of_pieces(int in_flight, int first, int last, std::int64_t longest_ns) {
  const std::int64_t excess = excess_bytes(in_flight, first, last);
  std::vector<const std::vector<AcesoChoice>*> pieces;
  std::vector<int> starts;
  std::vector<std::int64_t> limits;
  if (!effort_.spend(last - first)) return std::nullopt;
  for (int begin = first; begin < last;) {
    int end = begin + 1;
    while (end < last && !op(end).begins_piece) ++end;
    pieces.push_back(&piece(begin, end, end == last));
    starts.push_back(begin);
    for (const AcesoChoice& choice : *pieces.back()) limits.push_back(choice.again_bytes);
    begin = end;
  }
  const auto choices = std::ssize(limits);
  if (!effort_.spend(choices)) return std::nullopt;
  std::sort(limits.begin(), limits.end());
  limits.erase(std::unique(limits.begin(), limits.end()), limits.end());
  std::optional<AcesoChoice> best;
  for (const std::int64_t limit : limits) {
    const std::int64_t need = ceil_div(excess + limit, in_flight);
    if (time_at_rate(need, best_rate_) > longest_ns || !effort_.spend(choices)) break;
    const std::vector<int> chosen = Combination(pieces, limit, effort_).least_time(need, longest_ns);
    if (chosen.empty()) continue;
    best.emplace();
    for (std::size_t p = 0; p < pieces.size(); ++p)
      for (const int at : (*pieces[p])[as_index(chosen[p])].recomputed) best->recomputed.push_back(starts[p] + at);
    best = effect(best->recomputed, last);
    longest_ns = best->time_ns - 1;
  }
  return best;
}

}  // namespace mptune::planner
