# libdfs. `make help` lists the targets; CONTRIBUTING.md says more.
#
# demo, test, bench, check and fuzz do their own set-up: as root on a Debian-like machine they
# install what is missing, elsewhere they name it and stop.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := build
.PHONY: build demo test bench bench-java jar check fix fuzz chaos chaos-read install uninstall setup \
	clean help

CARGO ?= cargo
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
DESTDIR ?=

OUT := $(or $(CARGO_TARGET_DIR),target)
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
# Rises only when the ABI breaks; build.rs puts it into the library.
SO_MAJOR := 0
# PROFILE=dev builds and installs the development build (the C suite does).
PROFILE ?= release
LIB := $(OUT)/$(if $(filter dev,$(PROFILE)),debug,$(PROFILE))/libdfs
SOURCES := Cargo.toml Cargo.lock build.rs $(shell find src -name '*.rs')

## build: the release libraries, target/release/libdfs.{so,a}
build: $(LIB).so

# Without this rule `sudo make install` would need a cargo for root.
$(LIB).so: $(SOURCES)
	@$(CARGO) build --quiet --profile $(PROFILE) -p dfs
	@touch $(LIB).so $(LIB).a

## demo: write-ahead log, tail, random reads against minidfs; HADOOP=1: against real Hadoop
demo:
	@.ci/setup build $(if $(HADOOP),hadoop)
	@echo "== building (the first time takes some minutes)"
	@$(CARGO) build --quiet --release -p dfs -p dfs-testkit --lib --bins
	@$(MAKE) --silent install DESTDIR= PREFIX=$(abspath $(OUT))/demo LIBDIR= INCLUDEDIR=
	@$(CARGO) xtask demo $(if $(HADOOP),--hadoop)

## test: every suite: Rust, real Hadoop, C, Python, Java, HBase; SUITES="rust c" runs some
test:
	@.ci/setup build hadoop test
	@$(CARGO) xtask test $(SUITES)

## bench: every figure that README quotes (docs/benchmarks.md); ARGS="--quick" for a first look
bench:
	@.ci/setup build hadoop
	@$(CARGO) run --quiet --release -p dfs-bench --features hdfs-native -- run $(ARGS)

## jar: the Java half with the release library in it, target/java/libdfs-<version>.jar
jar:
	@.ci/setup build hadoop
	@$(CARGO) build --quiet --release -p dfs-jni
	@mvn -B -q -f jni-bridge/java/pom.xml -Dnative.dir=$(abspath $(OUT))/release \
		-Dmaven.test.skip=true package
	@ls $(OUT)/java/libdfs-$(VERSION).jar

## bench-java: garbage and time of the JVM bridge beside Hadoop's client; ARGS="200000 1": longer
bench-java:
	@.ci/setup build hadoop
	@$(CARGO) build --quiet --release -p dfs-jni
	@mvn -B -q -f jni-bridge/java/pom.xml -Dnative.dir=$(abspath $(OUT))/release test-compile \
		org.apache.maven.plugins:maven-dependency-plugin:3.8.1:build-classpath \
		-Dmdep.outputFile=$(abspath $(OUT))/java/classpath
	@cd $(OUT)/java && java -Xmx1g -Xmn64m -XX:+UseParallelGC -Djava.io.tmpdir=$(abspath $(OUT))/java \
		-cp "test-classes:classes:$$(cat classpath)" io.libdfs.bench.BridgeBench $(ARGS)

## check: formatting, clippy, repository rules, exported symbols, documentation
check:
	@.ci/setup build
	@$(CARGO) xtask check

## fix: formats and takes clippy's machine-applicable advice
fix:
	@$(CARGO) xtask fix

## fuzz: one fuzz target for FUZZ_S (60) seconds: make fuzz TARGET=packet_stream
fuzz:
	@.ci/setup build fuzz
	@fuzz/run "$(TARGET)" "$(or $(FUZZ_S),60)"

## chaos: SEEDS (10000) random fault schedules of writers, a check after each; START=seed replays
chaos:
	@.ci/setup build
	@$(CARGO) run --quiet --release -p dfs-testkit --bin chaos -- --seeds $(or $(SEEDS),10000) \
		--start $(or $(START),0)

## chaos-read: the same for readers: every byte right, every call in time
chaos-read:
	@.ci/setup build
	@$(CARGO) run --quiet --release -p dfs-testkit --bin chaos-read -- \
		--seeds "$(or $(SEEDS),10000)" --start "$(or $(START),0)"

## install: libraries, dfs.h, dfs.pc and CMake files below DESTDIR/PREFIX (/usr/local)
# Empty LIBDIR or INCLUDEDIR (make demo) mean their places below PREFIX.
lib_dir = $(or $(LIBDIR),$(PREFIX)/lib)
include_dir = $(or $(INCLUDEDIR),$(PREFIX)/include)
# $(call fill,file.in,folder of the result): paths in the files are relative to their own place, so
# that an installed tree can be moved.
fill = sed -e 's|@VERSION@|$(VERSION)|g' -e 's|@SO_MAJOR@|$(SO_MAJOR)|g' \
	-e "s|@LIBDIR@|$$(realpath -m --relative-to='$(2)' '$(lib_dir)')|g" \
	-e "s|@INCLUDEDIR@|$$(realpath -m --relative-to='$(2)' '$(include_dir)')|g" $(1)
install: $(LIB).so
	@lib="$(DESTDIR)$(lib_dir)"; include="$(DESTDIR)$(include_dir)"; \
	install -d "$$lib/pkgconfig" "$$lib/cmake/Dfs" "$$include"; \
	install -m 755 $(LIB).so "$$lib/libdfs.so.$(VERSION)"; \
	ln -sfn libdfs.so.$(VERSION) "$$lib/libdfs.so.$(SO_MAJOR)"; \
	ln -sfn libdfs.so.$(SO_MAJOR) "$$lib/libdfs.so"; \
	install -m 644 $(LIB).a "$$lib/libdfs.a"; \
	install -m 644 include/dfs.h "$$include/dfs.h"; \
	$(call fill,dfs.pc.in,$(lib_dir)/pkgconfig) > "$$lib/pkgconfig/dfs.pc"; \
	$(call fill,cmake/DfsConfig.cmake.in,$(lib_dir)/cmake/Dfs) \
		> "$$lib/cmake/Dfs/DfsConfig.cmake"; \
	$(call fill,cmake/DfsConfigVersion.cmake.in,$(lib_dir)/cmake/Dfs) \
		> "$$lib/cmake/Dfs/DfsConfigVersion.cmake"; \
	echo "libdfs $(VERSION): $$lib/libdfs.so.$(VERSION), $$include/dfs.h"

## uninstall: removes what install wrote
uninstall:
	@lib="$(DESTDIR)$(lib_dir)"; \
	rm -f "$$lib"/libdfs.so "$$lib"/libdfs.so.$(SO_MAJOR) "$$lib"/libdfs.so.$(VERSION) \
		"$$lib"/libdfs.a "$$lib"/pkgconfig/dfs.pc "$(DESTDIR)$(include_dir)"/dfs.h; \
	rm -rf "$$lib"/cmake/Dfs

## setup: installs everything that building, testing and fuzzing need
setup:
	@.ci/setup build hadoop test
	@echo "everything is there"

## clean: removes target/
clean:
	@rm -rf target fuzz/target

help:
	@sed -n 's/^## \([a-z-]*\): /  make \1|/p' Makefile | awk -F'|' '{printf "%-18s%s\n", $$1, $$2}'
