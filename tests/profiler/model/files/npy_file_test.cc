#include "profiler/model/files/npy_file.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "profiler/base/error.h"
#include "profiler/model/files/batch_file.h"
#include "tests/support/files.h"

namespace mptune::testing {
namespace {

/// What numpy.save writes: a header padded with blanks to a multiple of 64 bytes, then the numbers.
std::string npy(const std::string& type, const std::string& shape, const std::string& numbers, const std::string& order = "False",
                char version = 1) {
  std::string header = "{'descr': '" + type + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }";
  const std::size_t before = version == 1 ? 10 : 12;
  header.append(63 - (before + header.size()) % 64, ' ');
  header += '\n';
  std::string file = "\x93NUMPY";
  file += {version, '\0'};
  for (std::size_t i = 0; i < before - 8; ++i) file += static_cast<char>(header.size() >> (8 * i) & 0xFF);
  return file + header + numbers;
}

template <class T>
std::string bytes_of(const std::vector<T>& numbers) {
  std::string bytes(numbers.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

class NpyFile : public ::testing::Test {
 protected:
  [[nodiscard]] std::string written(const std::string& content, const std::string& name = "array.npy") const {
    std::ofstream(folder_.path(name), std::ios::binary) << content;
    return folder_.path(name);
  }
  [[nodiscard]] std::string refusal(const std::string& content) const {
    try {
      (void)profiler::map_npy_file(written(content));
    } catch (const Error& error) {
      return error.problem();
    }
    return "";
  }
  TestFolder folder_{"npy"};
};

TEST_F(NpyFile, HoldsTheNumbersOfTheArray) {
  std::vector<float> numbers(6);
  std::iota(numbers.begin(), numbers.end(), 1.5F);
  for (const char version : {'\1', '\2', '\3'}) {
    const at::Tensor read = profiler::map_npy_file(written(npy("<f4", "(2, 3)", bytes_of(numbers), "False", version)));
    EXPECT_TRUE(at::equal(read, at::tensor(numbers).view({2, 3}))) << int{version};
  }
  const std::vector<std::int64_t> integers{7, -1, 3};
  EXPECT_TRUE(at::equal(profiler::map_npy_file(written(npy("<i8", "(3,)", bytes_of(integers)))), at::tensor(integers)));
  EXPECT_EQ(profiler::map_npy_file(written(npy("|b1", "(2,)", std::string("\1\0", 2)))).scalar_type(), at::kBool);
  EXPECT_EQ(profiler::map_npy_file(written(npy("<f8", "()", bytes_of<double>({2.5})))).item<double>(), 2.5);
  EXPECT_EQ(profiler::map_npy_file(written(npy("<f4", "(0, 4)", ""))).numel(), 0);
}

TEST_F(NpyFile, WhatIsNoSuchArrayIsRefused) {
  const std::string good = npy("<f4", "(2, 3)", std::string(24, '\0'));
  EXPECT_EQ(refusal(good), "");
  EXPECT_EQ(refusal(""), "this is not an array of NumPy");
  EXPECT_EQ(refusal("PK\3\4 something else"), "this is not an array of NumPy");
  for (std::size_t size = 6; size < good.size(); ++size) EXPECT_NE(refusal(good.substr(0, size)), "") << size;
  EXPECT_EQ(refusal(good.substr(0, good.size() - 1)), "the file is truncated");
  EXPECT_EQ(refusal(npy("<f4", "(2, 3)", std::string(24, '\0'), "True")), "the array is in Fortran order");
  for (const char* type : {">f4", "|O", "<U5", "<M8[ns]", "|V8", ""})
    EXPECT_EQ(refusal(npy(type, "(2, 3)", std::string(200, '\0'))),
              "its elements are of a type that tensors do not have, or not little-endian numbers")
        << type;
  EXPECT_EQ(refusal(npy("<f4", "(-2, 3)", std::string(24, '\0'))), "the file's header does not say the shape");
  EXPECT_EQ(refusal(npy("<f4", "2, 3", std::string(24, '\0'))), "the file's header does not say the shape");
  EXPECT_EQ(refusal(npy("<f4", "(4611686018427387904, 4611686018427387904)", std::string(24, '\0'))), "the file is truncated");
  EXPECT_EQ(refusal(npy("<f4", "(9223372036854775807,)", std::string(24, '\0'))), "the file is truncated");
  std::string newer = good;
  newer[6] = 4;
  EXPECT_EQ(refusal(newer), "the file has version 4 of NumPy's format");
  EXPECT_THROW((void)profiler::map_npy_file(folder_.path("missing.npy")), Error);
}

TEST_F(NpyFile, AFolderOfArraysIsABatch) {
  SampleDescription sample;
  sample.inputs = {{.shape = {3}}};
  sample.target.classes = 4;
  (void)written(npy("<f4", "(2, 3)", bytes_of<float>({1, 2, 3, 4, 5, 6})), "input.npy");
  (void)written(npy("<i8", "(2,)", bytes_of<std::int64_t>({3, 0})), "target.npy");
  (void)written("not read", "notes.txt");
  const Batch batch = load_batch(folder_.path("."), sample);
  EXPECT_TRUE(at::equal(batch.inputs[0], at::arange(1, 7, at::kFloat).view({2, 3})));
  EXPECT_TRUE(at::equal(batch.target, at::tensor(std::vector<std::int64_t>{3, 0})));
  const TestFolder empty("npy-empty");
  EXPECT_THROW((void)load_batch(empty.path("."), sample), Error);
}

}  // namespace
}  // namespace mptune::testing
