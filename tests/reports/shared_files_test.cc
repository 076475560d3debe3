#include "reports/values/shared_files.h"

#include <gtest/gtest.h>

#include "tests/reports/samples.h"

namespace mptune::reports {
namespace {

TEST(NamesOfFiles, HaveNoFolders) {
  EXPECT_EQ(names_of_files("/home/anna/net.pt2"), "net.pt2");
  EXPECT_EQ(names_of_files("can't read /home/anna/net.pt2: no such file"), "can't read net.pt2: no such file");
  EXPECT_EQ(names_of_files("'/a/b', (/c/d) \"/e/f/\" --data=/g/h\n/i/j, `/k/l`"), "'b', (d) \"f/\" --data=h\nj, `l`");
  EXPECT_EQ(names_of_files("/net.pt2"), "net.pt2");
  EXPECT_EQ(names_of_files("run '/home/my folder/my net.pt' --data=/x.npy"), "run 'my net.pt' --data=x.npy");
  EXPECT_EQ(names_of_files("an open '/home/my"), "an open 'my");
}

TEST(NamesOfFiles, WhatIsNoPathStays) {
  for (const char* text : {"", "/", "a step / devices", "12 GB/s", "and/or", "toy.study/toy.plan.json", "../net.pt2",
                           "https://example.org/a", "</details>", "1/2 of cuda:0/1of2"})
    EXPECT_EQ(names_of_files(text), text);
}

TEST(SharedFiles, AreNamedFromTheFolderThatHoldsTheStudy) {
  StudyReport report = testing::study_of_a_home("/home/anna");
  EXPECT_EQ(study_name(report), "resnet50.study");
  EXPECT_EQ(beside_study(report, report.trace_files[0]), "resnet50.study/traces/recommended.sqlite");
  EXPECT_EQ(where_to_give_commands(report), "In the folder that holds resnet50.study and net.pt2, data.pt");
  report.training.model = "resnet50";
  report.training.data = "";
  report.study = "models/resnet50.study/";
  EXPECT_EQ(study_name(report), "resnet50.study");
  EXPECT_EQ(where_to_give_commands(report), "In the folder that holds resnet50.study");
}

}  // namespace
}  // namespace mptune::reports
