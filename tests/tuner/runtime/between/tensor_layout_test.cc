#include "tuner/runtime/between/tensor_layout.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstring>

#include "profiler/base/error.h"

namespace mptune::tuner {
namespace {

std::vector<at::Tensor> through_memory(const std::vector<at::Tensor>& tensors) {
  const TensorLayout layout = layout_from(numbers_of(layout_of(tensors)));
  EXPECT_EQ(layout, layout_of(tensors));
  const at::Tensor memory = at::empty({64 + layout.bytes}, at::kByte);
  pack(tensors, layout, memory, 64);
  return unpack(layout, memory, 64);
}

/// Like NCCL: a copy of each tensor's bytes.
std::vector<at::Tensor> through_flat(const std::vector<at::Tensor>& tensors) {
  const TensorLayout layout = layout_of(tensors);
  std::vector<at::Tensor> received = flat_likes(layout);
  const std::vector<at::Tensor> sent = flat_tensors(tensors, layout);
  EXPECT_EQ(sent.size(), received.size());
  for (std::size_t i = 0; i < sent.size(); ++i) {
    EXPECT_EQ(sent[i].sizes(), received[i].sizes());
    EXPECT_TRUE(sent[i].is_contiguous() && sent[i].dim() == 1);
    received[i] = at::empty_like(received[i], at::TensorOptions(at::kCPU));
    std::memcpy(received[i].data_ptr(), sent[i].const_data_ptr(), sent[i].nbytes());
  }
  return from_flat(layout, received);
}

using Way = std::vector<at::Tensor> (*)(const std::vector<at::Tensor>&);
class TensorsThrough : public ::testing::TestWithParam<Way> {};
INSTANTIATE_TEST_SUITE_P(TensorLayout, TensorsThrough, ::testing::Values(through_memory, through_flat));

TEST_P(TensorsThrough, ArriveAsTheyWere) {
  const at::Tensor image = at::rand({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast), some = at::rand({7});
  const std::vector<at::Tensor> sent{at::rand({3, 4}),
                                     image,
                                     at::rand({4, 6}).t(),
                                     at::arange(5),
                                     at::ones({3}, at::kBool),
                                     at::rand({2}).to(at::kBFloat16),
                                     at::rand({}),
                                     at::empty({0, 3}),
                                     at::rand({2, 2}, at::kComplexFloat),
                                     at::rand({2, 3}, at::kComplexFloat).conj().t()};
  const auto received = GetParam()(sent);
  ASSERT_EQ(received.size(), sent.size());
  for (std::size_t i = 0; i < sent.size(); ++i) {
    EXPECT_TRUE(at::equal(received[i], sent[i])) << i;
    EXPECT_EQ(received[i].scalar_type(), sent[i].scalar_type());
    EXPECT_EQ(received[i].strides(), sent[i].strides()) << i;
  }
}

TEST_P(TensorsThrough, UndefinedRepeatedAndTrainedTensorsStayWhatTheyAre) {
  const at::Tensor twice = at::rand({3}).set_requires_grad(true);
  const auto received = GetParam()({twice, at::Tensor(), twice, at::rand({3})});
  EXPECT_TRUE(received[0].requires_grad());
  EXPECT_FALSE(received[1].defined());
  EXPECT_TRUE(received[2].is_same(received[0]));
  EXPECT_FALSE(received[3].requires_grad());
}

TEST_P(TensorsThrough, OfGapsLoseThem) {
  const at::Tensor wide = at::rand({4, 10}), part = wide.narrow(1, 2, 3);
  const auto received = GetParam()({part, at::rand({5}).expand({3, 5})});
  EXPECT_TRUE(at::equal(received[0], part));
  EXPECT_TRUE(received[0].is_contiguous());
  EXPECT_EQ(received[1].sizes(), at::IntArrayRef({3, 5}));
}

// Else a layer that writes one of its inputs in place would make autograd refuse the others.
TEST_P(TensorsThrough, NoneIsAViewOfAnother) {
  const auto received = GetParam()({at::rand({3}), at::rand({3})});
  EXPECT_FALSE(received[0].is_view());
  const auto before = received[1]._version();
  received[0].mul_(2);
  EXPECT_EQ(received[1]._version(), before);
}

TEST(TensorLayout, NumbersOfNoLayoutAreRefused) {
  const std::vector<std::int64_t> good = numbers_of(layout_of({at::rand({2, 3}), at::rand({4})}));
  for (std::size_t count = 0; count < good.size(); ++count)
    EXPECT_THROW((void)layout_from({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(count)}), Error) << count;
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::vector<std::int64_t> bad = good;
    bad[i] = -5;
    EXPECT_THROW((void)layout_from(bad), Error) << i;
  }
}

// A tensor behind the end of its message would read other memory.
TEST(TensorLayout, TensorsBehindTheEndAreRefused) {
  const TensorLayout good = layout_of({at::rand({2, 3})});
  for (const auto change : {+[](TensorLayout& l) { l.places[0].sizes[0] = 1000; }, +[](TensorLayout& l) { l.places[0].strides[0] = 1000; },
                            +[](TensorLayout& l) { l.places[0].offset = 64; }}) {
    TensorLayout bad = good;
    change(bad);
    EXPECT_THROW((void)layout_from(numbers_of(bad)), Error);
  }
}

}  // namespace
}  // namespace mptune::tuner
