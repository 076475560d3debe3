// The work of a GPU's threads on the CPU, and the code in the GPU's compiler. Masks on a GPU: gpu_numbers_test.cc.
#include "profiler/model/random/hash_kernels.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "profiler/base/index.h"
#include "profiler/device/gpu_compiler.h"
#include "profiler/model/random/hash_kernels_text.h"
#include "profiler/model/random/hashed_numbers.h"

namespace mptune::profiler {
namespace {

using ::testing::HasSubstr;

constexpr std::array kKeeps{0.0, 1e-10, 1e-9, 0.3, 0.5, 1 - 1e-9, 1 - 1e-10, 1.0};
constexpr std::array kMaskTypes{at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kBool};

/// Numbers of one or more runs.
struct Numbers {
  HashedDraw draw;
  std::int64_t length;  ///< of a run
  [[nodiscard]] std::vector<std::int64_t> sizes() const { return {draw.runs, draw.samples, length}; }
};
const std::vector<Numbers> kNumbers{{{0, 0, 1}, 1},
                                    {{7, 3, 5}, 1},
                                    {{~std::uint64_t{5}, 1'000'000'007, 3}, 701},
                                    {{std::uint64_t{1} << 63, (std::int64_t{1} << 62) - 2, 2}, 260},
                                    {{0x123456789abcdef, 12, 40}, 33},
                                    {{7, 3, 5, 6}, 1},
                                    {{7, 3, 5, 6}, 40},
                                    {{7, 3, 1, 6}, 5}};

HashedSamples samples_of(const Numbers& numbers) {
  const auto& [key, first, samples, runs] = numbers.draw;
  return {key, static_cast<HashWord>(first), static_cast<HashWord>(samples), static_cast<HashWord>(runs),
          static_cast<HashWord>(numbers.length)};
}

/// What all threads of a kernel with `columns` x `rows` threads write, from the last thread to the first.
template <class Value, class Number>
std::vector<Value> by_threads(const Numbers& numbers, HashWord columns, HashWord rows, const Number& number) {
  std::vector<Value> values(as_index(c10::multiply_integers(numbers.sizes())), Value(85));
  for (HashWord column = columns; column-- > 0;)
    for (HashWord row = rows; row-- > 0;) fill_share(values.data(), samples_of(numbers), {column, columns, row, rows}, number);
  return values;
}

template <class Value>
void expect_equal_bits(const std::vector<Value>& values, const at::Tensor& tensor) {
  ASSERT_EQ(values.size() * sizeof(Value), tensor.nbytes());
  EXPECT_EQ(std::memcmp(values.data(), tensor.const_data_ptr(), tensor.nbytes()), 0);
}

/// The threads' mask of elements of this size, as the kernels make it: from the bits of 1 in the mask's type.
template <class Value>
void expect_mask(const Numbers& numbers, double keep, const at::Tensor& mask) {
  Value one = 0;
  std::memcpy(&one, at::ones({1}, mask.options()).const_data_ptr(), sizeof one);
  const auto below = static_cast<HashWord>(std::llround(keep * 4294967296.0));
  for (const auto& [columns, rows] : {std::pair<HashWord, HashWord>{1, 1}, {32, 3}, {256, 50}})
    expect_equal_bits(by_threads<Value>(numbers, columns, rows, MaskNumber<Value>{below, one}), mask);
}

TEST(HashKernels, ThreadsTogetherMakeTheMaskOfTheCpu) {
  for (const Numbers& numbers : kNumbers)
    for (const double keep : kKeeps)
      for (const at::ScalarType type : kMaskTypes) {
        SCOPED_TRACE(::testing::PrintToString(numbers.sizes()) + " " + std::to_string(keep) + " " + at::toString(type));
        const at::Tensor mask = hashed_mask(numbers.draw, keep, numbers.sizes(), type);
        EXPECT_TRUE(at::equal(mask, detail::hashed_mask_by_operations(numbers.draw, keep, numbers.sizes(), type)));
        if (mask.itemsize() == 1) expect_mask<std::uint8_t>(numbers, keep, mask);
        if (mask.itemsize() == 2) expect_mask<std::uint16_t>(numbers, keep, mask);
        if (mask.itemsize() == 4) expect_mask<std::uint32_t>(numbers, keep, mask);
        if (mask.itemsize() == 8) expect_mask<HashWord>(numbers, keep, mask);
      }
}

TEST(HashKernels, ThreadsTogetherMakeTheUniformNumbersOfTheCpu) {
  for (const Numbers& numbers : kNumbers)
    for (const int digits : {1, 8, 24, 53}) {
      const at::Tensor uniform = hashed_uniform(numbers.draw, digits, numbers.sizes(), at::kDouble);
      EXPECT_TRUE(at::equal(uniform, detail::hashed_uniform_by_operations(numbers.draw, digits, numbers.sizes(), at::kDouble)));
      expect_equal_bits(by_threads<double>(numbers, 64, 4, UniformNumber{64 - digits, std::ldexp(1.0, -digits)}), uniform);
    }
}

TEST(HashKernels, RunsOnlyMoveTheNumbersOfASample) {
  const at::Tensor by_samples = hashed_mask({7, 3, 5}, 0.5, {5, 6, 40}, at::kFloat);
  EXPECT_TRUE(at::equal(hashed_mask({7, 3, 5, 6}, 0.5, {6, 5, 40}, at::kFloat), by_samples.transpose(0, 1)));
}

// LibTorch's device without memory stands for one without kernels.
TEST(HashKernels, DevicesWithoutThemDoWithTensorOperations) {
  const at::TensorOptions options = at::TensorOptions(at::kHalf).device(at::kMeta);
  EXPECT_TRUE(hashed_mask({7, 0, 2}, 0.3, {2, 5}, options).options().type_equal(options));
  EXPECT_EQ(hashed_uniform({7, 0, 2}, 24, {2, 5}, options).sizes(), at::IntArrayRef({2, 5}));
  const at::Tensor mask = at::empty({2, 5}, options);
  const auto version = mask._version();
  fill_hashed_mask(mask, {7, 0, 2}, 0.3);
  EXPECT_GT(mask._version(), version);
}

// The first outputs of SplitMix64 that was seeded with 1234567, as published by others.
TEST(HashKernels, AreSplitMix64) {
  const std::array<HashWord, 5> published{6457827717110365317ULL, 3203168211198807973ULL, 9817491932198370423ULL, 4593380528125082431ULL,
                                          16408922859458223821ULL};
  for (std::size_t i = 0; i < published.size(); ++i) EXPECT_EQ(mixed(1234567 + (i + 1) * kHashStride), published[i]);
}

TEST(HashKernels, TextIsTheHeader) {
  std::ifstream file(MPTUNE_SOURCE_DIR "/profiler/model/random/hash_kernels.h");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), kHashKernels);
}

TEST(HashKernels, CompileForGpusAndSpillNothing) {
  if (std::string(MPTUNE_NVRTC).empty()) {
    GTEST_SKIP() << "no NVRTC was found when this was configured";
  }
  const GpuCompiler compiler(MPTUNE_NVRTC);
  for (const int capability : {80, 90}) {
    const GpuCompiler::Compiled compiled = compiler.compile(kHashKernels, capability, {"--ptxas-options=-v"});
    EXPECT_EQ(compiled.machine_code.substr(0, 4), "\177ELF");
    for (const char* name : {"mptune_mask_1", "mptune_mask_2", "mptune_mask_4", "mptune_mask_8", "mptune_uniform"})
      EXPECT_THAT(compiled.messages, HasSubstr("'" + std::string(name) + "' for 'sm_" + std::to_string(capability)));
    const std::regex spills("(\\d+) bytes stack frame, (\\d+) bytes spill stores, (\\d+) bytes spill loads");
    int kernels = 0;
    for (std::sregex_iterator found(compiled.messages.begin(), compiled.messages.end(), spills), end; found != end; ++found, ++kernels)
      EXPECT_EQ((*found)[1].str() + (*found)[2].str() + (*found)[3].str(), "000") << compiled.messages;
    EXPECT_EQ(kernels, 5) << compiled.messages;
    EXPECT_THAT(compiled.messages, ::testing::Not(HasSubstr("warning")));
  }
}

}  // namespace
}  // namespace mptune::profiler
