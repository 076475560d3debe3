#include "planner/plan/senders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace mptune::planner {
namespace {

using ::testing::ElementsAre;

std::string added(const std::string& a, const std::string& b) {
  return a.empty() ? b : "(" + a + "+" + b + ")";
}

/// Stages 1, 2 .. read a tensor of stage 0, with one operator or with two.
class Tensor {
 public:
  explicit Tensor(const std::vector<bool>& several) {
    for (std::size_t r = 0; r < several.size(); ++r) readers_.push_back({static_cast<int>(r) + 1, several[r]});
    from_ = senders(0, readers_);
  }

  /// Each stage adds what it is sent, that of later stages first, then its own operators' terms.
  [[nodiscard]] std::string pipelined(int stage = 0) const {
    std::string sum;
    for (std::size_t r = readers_.size(); r-- > 0;)
      if (from_[r] == stage) sum = added(sum, pipelined(readers_[r].stage));
    for (const std::string& term : terms(stage)) sum = added(sum, term);
    return sum;
  }
  [[nodiscard]] std::string unpipelined() const {
    std::string sum;
    for (int stage = static_cast<int>(readers_.size()); stage >= 0; --stage)
      for (const std::string& term : terms(stage)) sum = added(sum, term);
    return sum;
  }
  [[nodiscard]] bool single_readers_send_nothing() const {
    for (const StageReader& reader : readers_)
      for (const int from : from_)
        if (from == reader.stage && !reader.several) return false;
    return true;
  }

 private:
  [[nodiscard]] std::vector<std::string> terms(int stage) const {
    const std::string name = std::to_string(stage);
    if (stage > 0 && !readers_[static_cast<std::size_t>(stage) - 1].several) return {name};
    return {name + "b", name + "a"};
  }

  std::vector<StageReader> readers_;
  std::vector<int> from_;
};

TEST(Senders, SumsOfGradientsAreThoseOfTheUnpipelinedStep) {
  for (unsigned readers = 0; readers <= 8; ++readers)
    for (unsigned mask = 0; mask < 1U << readers; ++mask) {
      std::vector<bool> several;
      for (unsigned r = 0; r < readers; ++r) several.push_back((mask >> r & 1U) != 0);
      const Tensor tensor(several);
      ASSERT_EQ(tensor.pipelined(), tensor.unpipelined());
      ASSERT_TRUE(tensor.single_readers_send_nothing());
    }
}

TEST(Senders, OnlyAStageWithSeveralOperatorsHandsATensorOn) {
  EXPECT_THAT(senders(0, {{1, false}, {2, false}, {4, false}}), ElementsAre(0, 0, 0));
  EXPECT_THAT(senders(0, {{1, false}, {2, true}, {3, false}, {4, false}}), ElementsAre(0, 0, 2, 2));
  EXPECT_THAT(senders(1, {{2, true}, {5, true}, {6, true}}), ElementsAre(1, 2, 5));
}

// Layers 0 and 1 are stage 0, 2 and 3 stage 1, 4 and 5 stage 2.
TEST(Senders, AStageReadsWhatItsLayersRead) {
  const std::vector<int> stage_of{0, 0, 1, 1, 2, 2};
  const auto readers = [&](const std::vector<int>& layers, const std::vector<int>& several) {
    std::vector<std::pair<int, bool>> all;
    for (const StageReader& reader : stage_readers(0, layers, several, stage_of)) all.emplace_back(reader.stage, reader.several);
    return all;
  };
  using Readers = std::vector<std::pair<int, bool>>;
  EXPECT_EQ(readers({1}, {1}), Readers());
  EXPECT_EQ(readers({1, 3, 4}, {1}), (Readers{{1, false}, {2, false}}));
  EXPECT_EQ(readers({2, 3, 4}, {4}), (Readers{{1, true}, {2, true}}));
}

}  // namespace
}  // namespace mptune::planner
