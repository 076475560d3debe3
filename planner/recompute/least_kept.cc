#include "planner/recompute/least_kept.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>

#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();

// Returns where the stage begins that has the layer before `end`.
std::size_t stage_begin(const std::vector<LayerNeed>& layers, std::size_t end) {
  std::size_t begin = end - 1;
  while (begin > 0 && !layers[begin].first) --begin;
  return begin;
}

// Finds the pieces of the layers of one stage.
class StagePieces {
 public:
  StagePieces(std::span<const LayerNeed> layers, std::int64_t most_bytes)
      : layers_(layers), most_bytes_(most_bytes), before_(layers.size() + 1) {
    before_[0].saved = 0;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      save(i);
      compute_again_from(i);
    }
  }

  // Writes the set that saves fewest bytes; false if there is none.
  bool write(LayerSet& set, std::size_t at) const {
    std::size_t end = layers_.size();
    bool again = before_[end].again < before_[end].saved;
    if (!again && before_[end].saved == kNone) return false;
    while (end > 0) {
      const std::size_t begin = again ? before_[end].piece : end - 1;
      for (std::size_t i = begin; i < end; ++i) set[at + i] = again;
      again = !again && before_[end].behind_piece;
      end = begin;
    }
    return true;
  }

 private:
  // The fewest bytes that the layers before a layer save, if the last of them is saved, and if it is computed again.
  struct Before {
    std::int64_t saved = kNone;
    std::int64_t again = kNone;
    bool behind_piece = false;  // for `saved`: the layer before the saved one is computed again
    std::size_t piece = 0;      // for `again`: where the piece begins
  };

  void save(std::size_t i) {
    const Before& before = before_[i];
    const std::int64_t behind_piece = before.again == kNone ? kNone : before.again + layers_[i].input_bytes;
    const std::int64_t kept = std::min(before.saved, behind_piece);
    if (kept == kNone || kept + layers_[i].saved_bytes + layers_[i].running_bytes > most_bytes_) return;
    before_[i + 1].saved = kept + layers_[i].saved_bytes;
    before_[i + 1].behind_piece = behind_piece < before.saved;
  }

  void compute_again_from(std::size_t i) {
    const std::int64_t kept = before_[i].saved;
    if (kept == kNone) return;
    std::int64_t held = kept;
    for (std::size_t j = i; j < layers_.size(); ++j) {
      held += layers_[j].saved_bytes;
      if (held + layers_[j].running_bytes > most_bytes_) return;
      if (kept >= before_[j + 1].again) continue;
      before_[j + 1].again = kept;
      before_[j + 1].piece = i;
    }
  }

  std::span<const LayerNeed> layers_;
  std::int64_t most_bytes_;
  std::vector<Before> before_;  // before each layer, and before the end
};

}  // namespace

std::int64_t backward_bytes(const std::vector<LayerNeed>& layers, const LayerSet& set) {
  std::int64_t most = 0, kept = 0, piece = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].first) kept = piece = 0;
    const bool behind_piece = !layers[i].first && i > 0 && set[i - 1];
    if (!set[i] && behind_piece) kept += layers[i].input_bytes;
    if (!set[i]) piece = 0;
    (set[i] ? piece : kept) += layers[i].saved_bytes;
    most = std::max(most, kept + piece + layers[i].running_bytes);
  }
  return most;
}

std::optional<LayerSet> least_kept(const std::vector<LayerNeed>& layers, std::int64_t most_bytes) {
  LayerSet set(layers.size());
  for (std::size_t end = layers.size(); end > 0;) {
    const std::size_t begin = stage_begin(layers, end);
    if (!StagePieces({layers.data() + begin, end - begin}, most_bytes).write(set, begin)) return std::nullopt;
    end = begin;
  }
  return set;
}

}  // namespace mptune::planner
