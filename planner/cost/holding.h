#pragma once

#include <cstdint>
#include <vector>

namespace mptune::planner {

/// Bytes held over stretches of a device's row of actions.
class Holding {
 public:
  static constexpr int kWorkspace = -1;  ///< what an action needs while it runs
  static constexpr int kGradients = -2;  ///< of parameters
  static constexpr int kCopied = -3;     ///< from other devices, or while it is still copied to them

  /// Held during the actions [first, last].
  struct Stretch {
    int first = 0;
    int last = 0;
    std::int64_t bytes = 0;
    int microbatch = kWorkspace;  ///< whose activations, or one of the above
    int made = -1;                ///< gradients: during this action, whose workspace counts them; they stay to the end of the step
  };

  explicit Holding(std::size_t actions) : change_(actions + 1) {}

  void add(const Stretch& stretch);

  [[nodiscard]] std::int64_t most() const;
  /// While each action runs.
  [[nodiscard]] std::vector<std::int64_t> during() const;
  /// What is held between each action and the next; after the last, until the step ends.
  [[nodiscard]] std::vector<std::int64_t> after() const;
  /// What is held at the peak: during the first action that holds most.
  [[nodiscard]] std::vector<Stretch> fullest() const;

 private:
  std::vector<std::int64_t> change_;
  std::vector<Stretch> stretches_;
};

}  // namespace mptune::planner
