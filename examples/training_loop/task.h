#pragma once

#include <mptune/mptune.h>
#include <mptune/nn.h>

#include <cstdint>

/// Images of digits, samples x 1 x 10 x 10, and their labels. A digit has 5 x 7 points at a random position, under noise a quarter as
/// strong as the ink. Random at every call, from LibTorch's generator.
inline mptune::Batch draw_digits(int samples) {
  constexpr unsigned char kGlyphs[10][7] = {// a byte per row, five bits of ink, the left one highest
                                            {14, 17, 19, 21, 25, 17, 14}, {4, 12, 4, 4, 4, 4, 14},  {14, 17, 1, 2, 4, 8, 31},
                                            {31, 2, 4, 2, 1, 17, 14},     {2, 6, 10, 18, 31, 2, 2}, {31, 16, 30, 1, 1, 17, 14},
                                            {6, 8, 16, 30, 17, 17, 14},   {31, 1, 2, 4, 8, 8, 8},   {14, 17, 17, 14, 17, 17, 14},
                                            {14, 17, 17, 15, 1, 2, 12}};
  at::Tensor images = 0.25 * at::randn({samples, 1, 10, 10});
  const at::Tensor labels = at::randint(10, {samples}, at::kLong), places = at::randint(4, {samples, 2}, at::kLong);
  auto pixels = images.accessor<float, 4>();
  const auto label = labels.accessor<std::int64_t, 1>();
  const auto place = places.accessor<std::int64_t, 2>();
  for (int i = 0; i < samples; ++i)
    for (int row = 0; row < 7; ++row)
      for (int column = 0; column < 5; ++column)
        if ((kGlyphs[label[i]][row] >> (4 - column)) & 1) pixels[i][0][place[i][0] + row][place[i][1] + column + 1] += 1;
  return {{images}, labels};
}

/// A small convolutional network for the digits, with the same initial weights at every call.
inline torch::nn::Sequential make_net() {
  using torch::nn::Conv2d, torch::nn::Conv2dOptions, torch::nn::Flatten, torch::nn::Linear, torch::nn::Tanh;
  torch::manual_seed(1);
  return torch::nn::Sequential({{"conv1", Conv2d(Conv2dOptions(1, 16, 3).padding(1))},
                                {"act1", Tanh()},
                                {"conv2", Conv2d(Conv2dOptions(16, 32, 3).stride(2).padding(1))},
                                {"act2", Tanh()},
                                {"flat", Flatten()},
                                {"fc1", Linear(32 * 5 * 5, 64)},
                                {"act3", Tanh()},
                                {"out", Linear(64, 10)}});
}
