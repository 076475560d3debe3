#pragma once

#include <cstdint>
#include <vector>

namespace mptune::planner {

/// Bytes held over stretches of a device's row of actions.
class Holding {
 public:
  static constexpr int kWorkspace = -1;  ///< workspace that an action needs while it runs
  static constexpr int kGradients = -2;  ///< gradients of parameters
  static constexpr int kCopied = -3;     ///< tensors copied from other devices, or still being copied to them

  /// Bytes that are held during the actions [first, last].
  struct Stretch {
    int first = 0;
    int last = 0;
    std::int64_t bytes = 0;
    int microbatch = kWorkspace;  ///< the micro-batch whose activations they are, or one of the above
    int made = -1;                ///< gradients: made during this action, whose workspace counts them; they stay to the end of the step
  };

  explicit Holding(std::size_t actions) : change_(actions + 1) {}

  void add(const Stretch& stretch);

  [[nodiscard]] std::int64_t most() const;
  /// Returns the bytes held while each action runs.
  [[nodiscard]] std::vector<std::int64_t> during() const;
  /// Returns the bytes held between each action and the next; after the last, until the step ends.
  [[nodiscard]] std::vector<std::int64_t> after() const;
  /// Returns what is held at the peak, which is during the first action that holds most.
  [[nodiscard]] std::vector<Stretch> fullest() const;

 private:
  std::vector<std::int64_t> change_;
  std::vector<Stretch> stretches_;
};

}  // namespace mptune::planner
