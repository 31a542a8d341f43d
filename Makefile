# This Makefile builds hotmount's package and runs its tests. "make help" lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

# Debian's go is too old. If the go in PATH is too old, make uses the go of Go's own installer.
GO_NEEDED := 1.26
GO_INSTALLED := /usr/local/go/bin
new_enough = have=$$(cd / && GOTOOLCHAIN=local go env GOVERSION 2>/dev/null) && have=$${have\#go} && \
	[[ $$(printf '%s\n' $(GO_NEEDED) "$$have" | sort -V | head -n 1) = $(GO_NEEDED) ]]
export PATH := $(if $(shell $(new_enough) && echo yes),,$(GO_INSTALLED):)$(PATH)

# ARCH is Debian's name of the architecture, and GOARCH_ARCH is Go's name.
ARCH ?= $(shell dpkg --print-architecture)
GOARCH_amd64 := amd64
GOARCH_arm64 := arm64
OTHER_ARCH := $(if $(filter arm64,$(ARCH)),amd64,arm64)

# Version and date come from the commit, so that two builds of one commit are identical.
COMMIT := $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
export SOURCE_DATE_EPOCH := $(shell git log -1 --format=%ct 2>/dev/null || stat -c %Y go.mod)
DATE := $(shell date -u -d @$(SOURCE_DATE_EPOCH) +%Y-%m-%dT%H:%M:%SZ)
# make computes the version only when make starts. Otherwise the version would change when a target installs git.
VERSION := $(or $(VERSION),$(shell git describe --tags --match 'v[0-9]*' 2>/dev/null | sed -E 's/^v//; s/-([0-9]+)-g/+\1.g/; s/-/~/g'),0.1.0~git$(shell date -u -d @$(SOURCE_DATE_EPOCH) +%Y%m%d%H%M%S).$(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown))
DEB := build/hotmount_$(VERSION)_$(ARCH).deb
# The tests upgrade the package to NEXT. They also upgrade from PREVIOUS, the last release, once there is a release.
NEXT := $(VERSION)+next
PREVIOUS ?= $(shell git describe --tags --abbrev=0 --match 'v[0-9]*' HEAD^ 2>/dev/null)
test-deb test-container test-vm test-full: export HOTMOUNT_DEB = $(abspath $(DEB))
test-vm test-full: export HOTMOUNT_DEB_NEXT = $(abspath build/hotmount_$(NEXT)_$(ARCH).deb)
test-vm test-full: export HOTMOUNT_DEB_PREVIOUS = $(if $(PREVIOUS),$(abspath build/previous.deb))

GOCYCLO := go run github.com/fzipp/gocyclo/cmd/gocyclo@v0.6.0
STATICCHECK := go run honnef.co/go/tools/cmd/staticcheck@v0.8.1
BENCHSTAT := go run golang.org/x/perf/cmd/benchstat@v0.0.0-20260709024250-82a0b07e230d

# The build and the tests need these Debian packages. test/worker installs packages in the workers when a test needs them.
PACKAGES_deb := debhelper dpkg-dev git
PACKAGES_test := $(PACKAGES_deb) e2fsprogs fdisk fish gcc libc6-dev lintian lvm2 man-db prometheus strace systemd util-linux xfsprogs zsh

say = @echo "==> $$(date +%T) $(1)"
BEGUN := $(shell date +%s)

.PHONY: help check-go deps deps-deb build deb deb-next deb-previous lint test-unit test-deb test-same test-fuzz test-container test-vm test-long test test-full try demo bench bench-idle bench-inner bench-scan clean FORCE
help:
	@sed -n 's/^\(bench[a-z-]*\|[a-z][a-z-]*\):.*## /\1\t/p' Makefile | while IFS=$$'\t' read -r target what; do printf 'make %-14s %s\n' "$$target" "$$what"; done

check-go:
	@command -v go >/dev/null || { echo "hotmount is built with Go $(GO_NEEDED) or later, and there is no go here: https://go.dev/doc/install" >&2; exit 1; }
	@$(new_enough) || { echo "hotmount is built with Go $(GO_NEEDED) or later, and $$(command -v go) is $$have: https://go.dev/doc/install" >&2; exit 1; }
deps: ## install the Debian packages that build and tests need
	@packaging/need $(PACKAGES_test)
deps-deb:
	@packaging/need $(PACKAGES_deb)

try: deb ## show the package on loop devices in a container, and open a shell there (a minute, no virtual machine)
	@go run ./test/try -deb $(DEB)
demo: deb ## show the package with virsh in a Debian worker under libvirt (5 minutes)
	@go run ./test/demo -deb $(DEB)

# Go decides what to rebuild, so make always calls go build.
build: build/hotmount ## build the program build/hotmount
build/hotmount build/$(ARCH)/hotmount: FORCE check-go
	$(call say,building hotmount $(VERSION) for $(ARCH))
	@CGO_ENABLED=0 GOOS=linux GOARCH=$(or $(GOARCH_$(ARCH)),$(error no package for $(ARCH))) go build -trimpath -buildvcs=false \
		-ldflags '-s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT) -X main.date=$(DATE)' -o $@ ./cmd/hotmount
deb: deps-deb build/$(ARCH)/hotmount ## build the package; ARCH=arm64 for another architecture
	$(call say,packing $(DEB))
	@packaging/build $(ARCH) '$(VERSION)' $(COMMIT) $(DATE)
deb-next: deb
	@$(MAKE) --no-print-directory deb VERSION='$(NEXT)'
deb-previous:
	@[[ -z '$(PREVIOUS)' ]] || packaging/previous '$(PREVIOUS)' $(ARCH)

test: lint ## the tests that a change must pass (20 minutes on two processors)
	@# These two run in parallel, because neither of them uses both processors.
	@$(MAKE) --no-print-directory -j2 test-unit test-deb
	@$(MAKE) --no-print-directory test-fuzz
	@$(MAKE) --no-print-directory test-container
	@$(MAKE) --no-print-directory test-vm
	$(call say,the tests have passed in $$((($$(date +%s) - $(BEGUN)) / 60)) minutes; make test-long and make test-full have more)
lint: check-go ## gofmt, go vet, staticcheck, and a limit for the complexity of functions
	$(call say,gofmt and go vet and staticcheck and gocyclo)
	@bad=$$(gofmt -l cmd internal test); [[ -z $$bad ]] || { echo "not formatted: $$bad" >&2; exit 1; }
	@for tags in '' root,vm,full,deb; do go vet -tags "$$tags" ./...; $(STATICCHECK) -tags "$$tags" ./...; done
	@$(GOCYCLO) -over 25 -ignore '_test\.go$$' cmd internal
test-unit: check-go deps ## the tests that need no worker (2 minutes)
	$(call say,unit tests with the race detector)
	@test/unit
test-deb: deps deb ## test the package: lintian, contents, man pages, alerts, completion, exposure of the units
	@$(MAKE) --no-print-directory deb ARCH=$(OTHER_ARCH)
	$(call say,tests of the package)
	@HOTMOUNT_DEBS='$(abspath $(DEB)) $(abspath build/hotmount_$(VERSION)_$(OTHER_ARCH).deb)' HOTMOUNT_COMMIT=$(COMMIT) HOTMOUNT_DATE=$(DATE) go test -tags deb -count 1 ./test/packaging
test-same: check-go deps deb ## check that two builds are identical
	$(call say,the same package from another directory)
	@packaging/same $(DEB) '$(VERSION)' $(COMMIT)
test-fuzz: check-go deps ## test each parser with 20000 random inputs
	$(call say,each parser fuzzed)
	@test/fuzz 20000x
test-container: deps deb ## test the container in which other tests run; RUN=Name for some of the container's tests
	$(call say,tests of the container)
	@go test -race -tags root -timeout 20m -count 1 $(if $(RUN),-run '$(RUN)') ./test/worker
# RUN can also name a test of the target test-long or test-full. With WORKER=vm all tests run in virtual machines.
TAGS := $(if $(RUN),vm$(shell echo ,)full,vm)
SKIP = ^($(shell grep -hv '^\#' test/system/long.txt test/system/full.txt | paste -sd '|'))$$
test-vm: deps deb deb-next deb-previous ## the system tests; RUN=Name for some tests, WORKER=vm for virtual machines only
	$(call say,tests in containers and virtual machines)
	@# With -p 1 go test prints the output while the tests run.
	@HOTMOUNT_TEST_WORKER=$(WORKER) go test -p 1 -tags $(TAGS) -timeout 60m -count 1 $(if $(RUN),-run '$(RUN)',-skip '$(SKIP)') -v ./test/... 2>&1 | tee build/test-vm.log | grep --line-buffered -vE '^=== (PAUSE|CONT|NAME)'
test-long: deps test-same ## more system tests (45 minutes); the target test has only one example of each kind of fault
	@test/long $(COMMIT) $(UNTIL)
# make test-full does not repeat a test that has passed for the same sources.
SOURCES := cmd internal packaging systemd udev test go.mod go.sum Makefile
test-full: deps deb deb-next deb-previous ## all tests, for hours; can be stopped and continued; ONLY=regexp for a part
	@[[ -z $$(git status --porcelain -- . ":!test/reports") ]] || { echo "the report names a commit: commit what is changed first" >&2; exit 1; }
	@go run ./test/full -commit $(COMMIT) -sources '$(SOURCES)' -dir build/full -only '$(ONLY)'

# ONLY is the list of the figures to measure, and ROUNDS is the highest number of turns of each method. BASE is a
# package to compare, and ROOT is the container's root filesystem.
ROUNDS := 30
bench: deb ## compare with other methods to mount, in a container (at most an hour; ONLY=one,twenty ROUNDS=5 BASE=other.deb)
	@CGO_ENABLED=0 go build -trimpath -o build/bench ./test/bench
	@build/bench -deb $(DEB) -commit $(COMMIT) -turns $(ROUNDS) $(if $(ONLY),-only '$(ONLY)') $(if $(BASE),-base '$(BASE)') $(if $(ROOT),-root '$(ROOT)') $(BENCH)
bench-idle: ## measure what an idle daemon does in ten minutes
	@$(MAKE) --no-print-directory bench ONLY=idle BENCH='-dir build/idle'
# bench-inner runs the Go benchmarks alternately in this tree and in the commit BASE.
bench-inner: BASE = HEAD~1
INNER := go test -run '^$$' -bench . -benchtime 0.3s -benchmem $$(grep -rl '^func Benchmark' --include='*_test.go' internal | grep -v root_test | xargs -n1 dirname | sort -u | sed 's|^|./|')
bench-inner: check-go deps ## run the Go benchmarks, and compare them with those of the commit BASE (default: the previous commit)
	@base=$$(mktemp -d); trap 'git worktree remove --force "$$base/tree"; rm -rf "$$base"' EXIT; \
	git worktree add -q --detach "$$base/tree" $(BASE); \
	for i in 1 2 3 4 5 6; do (cd "$$base/tree" && $(INNER)) >>"$$base/before"; $(INNER) >>"$$base/after"; done; \
	(cd "$$base" && $(BENCHSTAT) before after)
bench-scan: check-go deps ## compare the speed of the proof of blankness with the speed of dd; fails if the proof is too slow
	$(call say,how fast a blank disk is read: of dd's speed in the same run (scan/dd) at least 0.8)
	@go test -tags root -run '^$$' -bench RealScan -benchtime 9x ./internal/format

clean: ## remove build/
	rm -rf build
