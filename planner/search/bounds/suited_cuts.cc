#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "planner/search/bounds/cuts_rater.h"
#include "planner/search/bounds/stages_bound.h"
#include "planner/search/bounds/two_rounds.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

constexpr int kFurthest = 3;                                // layers that cuts move together
constexpr std::int64_t kMostRated = std::int64_t{1} << 23;  // limit of the stages in all cuts that are rated

std::vector<int> open_layers(const FamilyWork& work) {
  std::vector<int> open;
  for (std::size_t layer = 1; layer + 1 < work.all.size(); ++layer)
    if (std::isfinite(work.send[layer])) open.push_back(static_cast<int>(layer));
  return open;
}

// Moves one cut or two neighbours, as long as that helps.
class Improver {
 public:
  Improver(CutsRater& rater, const std::vector<int>& open, std::vector<int> cuts)
      : rater_(rater), open_(open), cuts_(std::move(cuts)), left_(kMostRated / (std::ssize(cuts_) + 1)), best_(rater.rate(cuts_).sum) {
    for (const int cut : cuts_) places_.push_back(std::ranges::lower_bound(open_, cut) - open_.begin());
  }

  std::vector<int> run() {
    for (bool better = true; better && left_ > 0;) {
      better = false;
      for (std::size_t c = 0; c < cuts_.size(); ++c) better = move_alone(c) || better;
      for (std::size_t c = 0; c + 1 < cuts_.size() && left_ > 0; ++c) better = move_both(c, c + 1) || better;
    }
    return cuts_;
  }

 private:
  using Place = std::ptrdiff_t;  // index into the layers where stages may begin

  bool move_alone(std::size_t c) {
    bool better = false;
    for (Place by = -2 * kFurthest; by <= 2 * kFurthest; ++by) {
      if (by == 0) continue;
      std::vector<Place> moved = places_;
      moved[c] += by;
      better = attempt(std::move(moved), c, c) || better;
    }
    return better;
  }

  bool move_both(std::size_t c, std::size_t d) {
    bool better = false;
    for (Place one = -kFurthest; one <= kFurthest; ++one)
      for (Place other = -kFurthest; other <= kFurthest; ++other) {
        if (one == 0 || other == 0) continue;
        std::vector<Place> moved = places_;
        moved[c] += one;
        moved[d] += other;
        better = attempt(std::move(moved), c, d) || better;
      }
    return better;
  }

  // Tries cuts with other places from c to d.
  bool attempt(std::vector<Place> moved, std::size_t c, std::size_t d) {
    if (moved[c] < (c == 0 ? 0 : moved[c - 1] + 1) || moved[d] > (d + 1 == moved.size() ? std::ssize(open_) : moved[d + 1]) - 1)
      return false;
    for (std::size_t i = c; i < d; ++i)
      if (moved[i] >= moved[i + 1]) return false;
    for (std::size_t i = c; i <= d; ++i) cuts_[i] = open_[as_index(moved[i])];
    --left_;
    const double sum = rater_.rate(cuts_).sum;
    if (sum < best_ * (1 - 1e-9)) {
      best_ = sum;
      places_ = std::move(moved);
      return true;
    }
    for (std::size_t i = c; i <= d; ++i) cuts_[i] = open_[as_index(places_[i])];
    return false;
  }

  CutsRater& rater_;
  const std::vector<int>& open_;
  std::vector<int> cuts_;
  std::vector<Place> places_;
  std::int64_t left_;
  double best_;
};

}  // namespace

std::vector<int> suited_cuts(const std::vector<int>& devices, const FamilyWork& work, bool splits, double evenness, std::vector<int> cuts) {
  const std::vector<int> open = open_layers(work);
  CutsRater rater(devices, work, splits, evenness);
  rater.scale(rater.rate(cuts).longest_ns);
  improve_two_rounds(rater, devices, open, cuts);
  return Improver(rater, open, std::move(cuts)).run();
}

}  // namespace mptune::planner
