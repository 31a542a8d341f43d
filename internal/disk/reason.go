package disk

// Reason is the name of the reason for a decision. The name is stable for scripts, journal fields and metrics.
type Reason string

// The reasons. Package policy gives each reason an action.
const (
	// The disk is ignored: hotmount must not use it.
	ReasonSystem    Reason = "system-disk"
	ReasonElsewhere Reason = "mounted-elsewhere"
	ReasonBound     Reason = "bound-as-device"
	ReasonSwap      Reason = "swap"
	ReasonMultipath Reason = "multipath-leg"
	ReasonNotReady  Reason = "not-ready"
	ReasonHeld      Reason = "held-by-a-device"
	ReasonClaimed   Reason = "claimed"
	ReasonSeed      Reason = "cloud-init-seed"
	ReasonNoClass   Reason = "no-class"
	ReasonExcluded  Reason = "excluded"
	ReasonGivenElse Reason = "given-out-elsewhere"

	// The partitions of the disk are used instead of the whole disk.
	ReasonPartitioned Reason = "partitions-are-used"
	// The partition's whole disk belongs to another class.
	ReasonWhole Reason = "disk-of-another-class"

	// No class selects the disk, but hotmount could use the disk.
	ReasonUnselected Reason = "unselected"

	// udev has not finished with the disk.
	ReasonUdev Reason = "udev-pending"

	// The disk must not be used in its present state.
	ReasonInUse        Reason = "volume-in-use"
	ReasonSize         Reason = "no-size"
	ReasonReadOnly     Reason = "read-only"
	ReasonPartitions   Reason = "partitions"
	ReasonHalfMade     Reason = "half-made"
	ReasonTorn         Reason = "format-torn"
	ReasonTwin         Reason = "twin"
	ReasonType         Reason = "type-not-accepted"
	ReasonOther        Reason = "other-content"
	ReasonUnknown      Reason = "unknown-content"
	ReasonTooSmall     Reason = "too-small"
	ReasonNoCreate     Reason = "class-creates-nothing"
	ReasonFormatFailed Reason = "format-failed"
	ReasonUncounted    Reason = "writes-not-counted"
	ReasonDisagree     Reason = "udev-disagrees"
	ReasonMisplaced    Reason = "mounted-in-anothers-place"
	ReasonShrunk       Reason = "disk-shrunk"
	ReasonNoSerial     Reason = "no-serial"
	ReasonSerialTwice  Reason = "serial-twice"
	ReasonNeverFormat  Reason = "was-given-out"
	ReasonPartition    Reason = "partition-without-filesystem"
	ReasonLost         Reason = "disk-below-gone"

	// The disk waits until the operator accepts it, or until the cause of the hold is gone.
	ReasonFormatOff    Reason = "formatting-off"
	ReasonSettings     Reason = "configuration-fault"
	ReasonPresent      Reason = "attached-before-installation"
	ReasonNewMachine   Reason = "new-machine-id"
	ReasonUnseen       Reason = "claims-unseen"
	ReasonUsed         Reason = "used-elsewhere"
	ReasonCSI          Reason = "may-be-a-csi-volume"
	ReasonSameSerial   Reason = "same-serial"
	ReasonSameWWN      Reason = "same-wwn"
	ReasonBefore       Reason = "filesystem-vanished"
	ReasonFormerSerial Reason = "former-serial"
	ReasonFormerSlot   Reason = "former-slot"
	ReasonBrake        Reason = "too-many-formats"
	ReasonShared       Reason = "made-by-another"
	ReasonOverwrite    Reason = "overwriting-unfinished"
	ReasonDisturbed    Reason = "format-disturbed"
	ReasonReleased     Reason = "released"
	ReasonUnmounted    Reason = "unmounted-by-hand"
	ReasonContent      Reason = "content-to-be-given-out"
	ReasonFormerBlock  Reason = "filesystem-on-former-block-volume"
	ReasonOtherBlock   Reason = "name-of-another-block-volume"
	ReasonOtherClass   Reason = "volume-of-another-class"
	ReasonNotAdopted   Reason = "not-adopted"

	// hotmount proves, formats, mounts, grows or gives out the disk, or leaves the disk as it is.
	ReasonIntent     Reason = "unfinished-format"
	ReasonUnread     Reason = "nothing-known-on-it"
	ReasonBlank      Reason = "blank"
	ReasonFilesystem Reason = "filesystem"
	ReasonMounted    Reason = "mounted"
	ReasonBlock      Reason = "block-mode"
	ReasonGivenOut   Reason = "given-out"
	ReasonFault      Reason = "mounted-with-a-fault"
	ReasonCovered    Reason = "covered"
	ReasonSmaller    Reason = "filesystem-smaller"
	ReasonNotGrown   Reason = "not-grown"
	ReasonUnmeasured Reason = "filesystem-unmeasured"
)
